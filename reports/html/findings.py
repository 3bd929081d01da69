"""What is wrong, said once for all cells of a target of which it is said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reports.html.cells import CellView

NAMED: Final = 2


@dataclass(frozen=True)
class Wrong:
    """One sentence, the target and cells that it is about, and the fragment of the first."""

    target: str
    headline: str
    where: str
    anchor: str


def wrong(views: Sequence[CellView]) -> list[Wrong]:
    """What is said of the cells that fail, in the order in which it is first said."""
    groups: dict[tuple[str, str], list[CellView]] = {}
    for view in views:
        if view.entry.status.stops:
            groups.setdefault((str(view.entry.subject), view.entry.headline), []).append(view)
    return [
        Wrong(target, headline or cells[0].entry.kind, _where(cells), cells[0].anchor)
        for (target, headline), cells in groups.items()
    ]


def _where(cells: Sequence[CellView]) -> str:
    names = "; ".join(view.entry.name for view in cells[:NAMED])
    more = len(cells) - NAMED
    return f"in {names}{f' and {more} more cells' if more > 1 else ' and 1 more cell' if more == 1 else ''}"
