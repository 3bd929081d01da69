"""Two runs, or two targets of one, side by side: new, fixed, worse, better, the same, on one side alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pandas as pd

from reports.facts import findings
from reports.records import Verdict
from reports.run import Run
from reports.schema import CELL_COLUMNS

PLACE: Final = tuple(column for column in CELL_COLUMNS if column != "target")
"""What names a cell on both sides."""

MUCH: Final = 2.0
"""A worst error that grew, or shrank, by this factor is worse, or better."""

_FAILING: Final = frozenset(verdict.value for verdict in Verdict if verdict.fails or verdict is Verdict.KNOWN)


class Change(StrEnum):
    """What became of a cell; `about` is the heading it stands under."""

    NEW = "new"
    CHANGED = "changed"
    WORSE = "worse"
    FIXED = "fixed"
    BETTER = "better"
    SAME = "same"
    CLEAN = "clean"
    ONLY_BASE = "only in base"
    ONLY_HEAD = "only in head"

    @property
    def about(self) -> str:
        """The heading."""
        return _ABOUT[self]


_ABOUT: Final = {
    Change.NEW: "New divergences",
    Change.CHANGED: "Diverges otherwise than before",
    Change.WORSE: "Worse",
    Change.FIXED: "Fixed",
    Change.BETTER: "Better",
    Change.SAME: "Diverges as before",
    Change.CLEAN: "Clean on both sides",
    Change.ONLY_BASE: "Judged in {base} alone",
    Change.ONLY_HEAD: "Judged in {head} alone",
}
_REGRESSIONS: Final = (Change.NEW, Change.CHANGED, Change.WORSE)


@dataclass(frozen=True, eq=False)
class Side:
    """One target of a run: its label, its rows, and what is wrong with each of its cells."""

    run: Run
    label: str

    @property
    def rows(self) -> pd.DataFrame:
        """The rows of the schedule: what was shrunk differs from run to run."""
        rows = self.run.rows
        ours = (rows["target"] == self.label) & (rows["phase"] != "shrunk")
        return rows[ours & (rows["verdict"] != Verdict.UNSUPPORTED.value)]

    @property
    def signatures(self) -> dict[tuple[Any, ...], str]:
        """What is wrong with each failing cell, by the columns of `PLACE`."""
        at = [CELL_COLUMNS.index(column) for column in PLACE]
        found = findings(self.run.facts)
        return {tuple(cell[i] for i in at): words for cell, words in found.items() if cell[0] == self.label}


@dataclass(frozen=True)
class Half:
    """One side of a cell, of the cases that both have: how many fail, their verdict, the largest error / bound."""

    failing: int
    verdict: str
    worst: float
    signature: str


@dataclass(frozen=True)
class CellChange:
    """One cell on both sides. `shared` counts the cases that both have; `other_conventions` those of them that are
    the same batch judged under other conventions.
    """

    place: tuple[Any, ...]
    change: Change
    shared: int
    other_conventions: int
    base: Half
    head: Half

    @property
    def is_regression(self) -> bool:
        """Whether a gate must not pass: head does worse, and nobody expects it to."""
        return self.change in _REGRESSIONS and self.head.verdict != Verdict.KNOWN.value


@dataclass(frozen=True)
class Comparison:
    """All cells of both sides, in the order of head's rows."""

    base: str
    head: str
    cells: tuple[CellChange, ...]

    @property
    def regressions(self) -> tuple[CellChange, ...]:
        """The cells that do worse."""
        return tuple(cell for cell in self.cells if cell.is_regression)

    @property
    def shared(self) -> int:
        """Cases that both sides have, summed over the cells."""
        return sum(cell.shared for cell in self.cells)

    def of(self, change: Change) -> tuple[CellChange, ...]:
        """The cells that something became of."""
        return tuple(cell for cell in self.cells if cell.change is change)


def compared(base: Side, head: Side, same_schedule: bool) -> Comparison:
    """Two sides, case by case.

    Cases are aligned by their content; where both sides drew the same schedule, what is left of a description is
    the same batch under other conventions.
    """
    return Comparison(base.label, head.label, tuple(_cells(base, head, same_schedule)))


def _cells(base: Side, head: Side, same_schedule: bool) -> Iterator[CellChange]:
    ours, theirs = (dict(list(side.rows.groupby(list(PLACE), sort=False))) for side in (base, head))
    words = base.signatures, head.signatures
    for place in dict.fromkeys((*theirs, *ours)):
        if place not in ours or place not in theirs:
            only = Change.ONLY_HEAD if place in theirs else Change.ONLY_BASE
            found = theirs[place] if place in theirs else ours[place]
            failing = found[found["verdict"].isin(_FAILING)]
            one = _half(failing, (words[1] if place in theirs else words[0]).get(place, ""))
            none = _half(failing[:0], "")
            sides = (none, one) if only is Change.ONLY_HEAD else (one, none)
            yield CellChange(place, only, 0, 0, *sides)
            continue
        shared, moved = _aligned(ours[place], theirs[place], same_schedule)
        failed = [shared[f"verdict_{side}"].isin(_FAILING) for side in ("base", "head")]
        halves = [
            _half(_side(shared[failed[i]], side), words[i].get(place, "") if failed[i].any() else "")
            for i, side in enumerate(("base", "head"))
        ]
        appeared, vanished = int((~failed[0] & failed[1]).sum()), int((failed[0] & ~failed[1]).sum())
        yield CellChange(place, _change(halves[0], halves[1], appeared, vanished), len(shared), moved, *halves)


def _aligned(base: pd.DataFrame, head: pd.DataFrame, same_schedule: bool) -> tuple[pd.DataFrame, int]:
    """The cases that both have, and how many of them only by their description."""
    columns = ["case_id", "description", "phase", "verdict", "loss_ratio", "gradient_ratio"]
    base, head = (side[columns].drop_duplicates("case_id") for side in (base, head))
    same = base.merge(head, on="case_id", suffixes=("_base", "_head"))
    if not same_schedule:
        return same, 0
    left = [side[~side["case_id"].isin(same["case_id"])] for side in (base, head)]
    moved = left[0].merge(left[1], on=["description", "phase"], suffixes=("_base", "_head"))
    return pd.concat([same, moved]), len(moved)


def _side(shared: pd.DataFrame, side: str) -> pd.DataFrame:
    names = ("verdict", "loss_ratio", "gradient_ratio")
    return shared[[f"{name}_{side}" for name in names]].set_axis(list(names), axis=1)


def _half(failing: pd.DataFrame, signature: str) -> Half:
    ratios = failing[["loss_ratio", "gradient_ratio"]].max(axis=1)
    verdicts = sorted(set(failing["verdict"]), key=list(Verdict).index)
    fails = [verdict for verdict in verdicts if verdict != Verdict.KNOWN.value]
    verdict = (fails or verdicts or [""])[0]
    return Half(len(failing), verdict, float(ratios.max()) if len(ratios) else math.nan, signature)


def _change(base: Half, head: Half, appeared: int, vanished: int) -> Change:
    if not base.failing and not head.failing:
        return Change.CLEAN
    if not base.failing:
        return Change.NEW
    if not head.failing:
        return Change.FIXED
    if base.signature and head.signature and base.signature != head.signature:
        return Change.CHANGED
    if appeared and vanished:
        return Change.CHANGED
    if appeared or head.worst > MUCH * base.worst:
        return Change.WORSE
    if vanished or base.worst > MUCH * head.worst:
        return Change.BETTER
    return Change.SAME
