"""In which regions of input space a cell fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pandas as pd

from reports.records import Verdict

MOST: Final = 12
_FAILING: Final = frozenset(verdict.value for verdict in Verdict if verdict.fails)


@dataclass(frozen=True)
class RegionShare:
    """Of the cases in a region, how many fail, and the largest error / bound there."""

    name: str
    failing: int
    cases: int
    largest: float

    @property
    def percent(self) -> int:
        """The share that fails; rounded, but 0 and 100 only where it is none and all."""
        share = round(100 * self.failing / self.cases)
        return share if self.failing in (0, self.cases) else min(max(share, 1), 99)


def shares(rows: pd.DataFrame) -> list[RegionShare]:
    """The regions of a failing cell in which the largest share fails, at most `MOST`."""
    if not rows["verdict"].isin(_FAILING).any():
        return []
    rows = rows.assign(
        fails=rows["verdict"].isin(_FAILING), error=rows[["loss_ratio", "gradient_ratio"]].max(axis=1)
    )
    each = rows.explode("regions").dropna(subset=["regions"]).groupby("regions", sort=False)
    found = each.agg(failing=("fails", "sum"), cases=("fails", "size"), largest=("error", "max"))
    listed = [
        RegionShare(str(name), int(one.failing), int(one.cases), float(one.largest))
        for name, one in zip(found.index, found.itertuples(), strict=True)
        if one.failing
    ]
    return sorted(listed, key=lambda one: (-one.failing / one.cases, -one.cases))[:MOST]
