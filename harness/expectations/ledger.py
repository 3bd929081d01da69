"""Which entries were met in a run, where, and how: what their outcomes are settled from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.events import CaseJudged
from harness.expectations.entry import NOTHING_EXPECTED, Expect, Expectations, Subject
from harness.generation import LARGE, SCHEDULED
from harness.kept_cases import KeptCases
from reports.records import Cell, Verdict


@dataclass
class Covered:
    """The known cases of one cell that one entry covers, and no earlier one.

    `worst` is the largest error / bound, NaN where nothing was compared; `signature` what was found to be wrong,
    "" until somebody looks.
    """

    entry: Expect
    cell: Cell
    witness: CaseJudged
    ids: set[str] = field(default_factory=set)
    worst: float = math.nan
    signature: str = ""
    failing_in: Counter[str] = field(default_factory=Counter)
    failing_cases: int = 0
    kept: KeptCases = field(default_factory=KeptCases)

    @property
    def cases(self) -> int:
        """How many there are."""
        return len(self.ids)

    def add(self, judged: CaseJudged) -> None:
        """Count one of them."""
        record = judged.record
        self.ids.add(record.case_id)
        ratios = [ratio for ratio in (record.loss.ratio, record.gradient.ratio) if not math.isnan(ratio)]
        if ratios and not max(ratios) <= self.worst:
            self.worst = max(ratios)
            # A witness that can be read is kept.
            if record.phase != LARGE or self.witness.record.phase == LARGE:
                self.witness = judged
        if record.phase in SCHEDULED:
            self.failing_cases += 1
            self.failing_in.update(record.regions)
            self.kept.add(judged)


class Ledger:
    """Takes the known cases of a run that expects `entries` of its targets."""

    def __init__(self, entries: Expectations = NOTHING_EXPECTED, subjects: Sequence[Subject] = ()) -> None:
        self.entries = entries.entries
        self.subjects = tuple(subjects)
        self._about: Mapping[str, Expectations] = {one.label: entries.about(one) for one in subjects}
        self._covered: dict[tuple[int, Cell], Covered] = {}
        self._met: set[tuple[int, Cell]] = set()

    def add(self, judged: CaseJudged) -> None:
        """Count a case, if it is known."""
        record = judged.record
        if record.verdict is not Verdict.KNOWN:
            return
        about = self._about[record.cell.target].entries
        covering = [entry for entry in about if entry.covers(record.cell, record.regions)]
        self._met.update((entry.number, record.cell) for entry in covering)
        first = covering[0]
        place = first.number, record.cell
        if place not in self._covered:
            self._covered[place] = Covered(first, record.cell, judged)
        self._covered[place].add(judged)

    def explain(self, number: int, cell: Cell, signature: str) -> None:
        """Note what was found to be wrong in a cell that an entry covers."""
        self._covered[number, cell].signature = signature

    @property
    def to_explain(self) -> Iterator[Covered]:
        """What must be explained: an entry says what is wrong there."""
        return (covered for covered in self._covered.values() if covered.entry.signature)

    def covered(self, entry: Expect) -> list[Covered]:
        """What an entry covers, cell by cell, in the order in which the cells were judged."""
        return [covered for (number, _), covered in self._covered.items() if number == entry.number]

    def met(self, entry: Expect) -> set[Cell]:
        """The cells with a known case that the entry covers, whether or not an earlier one does, too."""
        return {cell for number, cell in self._met if number == entry.number}

    def meant(self, entry: Expect, cells: Sequence[Cell]) -> list[Cell]:
        """Those of some cells that an entry is about."""
        return [cell for cell in cells if entry in self._about[cell.target].entries and entry.includes(cell)]
