"""What a run has seen so far, per cell: witnesses, failing cases, regions, and the exit code they add up to."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from cases.case import Case
from cases.regions import missing
from harness.events import CaseJudged, CellExplained, ExpectationChecked, PaddingChecked, Shrinking
from harness.exit_codes import ExitCode
from harness.expectations.ledger import Ledger
from harness.expectations.settling import Settled, settle
from harness.generation import LARGE, SCHEDULED, corpus_names
from harness.kept_cases import KeptCases
from harness.signature.evidence import Suspect, Where
from oracles.registry import ORACLES
from reports.records import Cell, Verdict, worst

_COMPARED = (
    Verdict.CONFORMS,
    Verdict.DIVERGES,
    Verdict.KNOWN,
    Verdict.OVERFLOW,
    Verdict.NONDETERMINISTIC,
)


@dataclass
class _CellTally:
    spec_regions: tuple[str, ...]
    regions: set[str] = field(default_factory=set)
    compared: int = 0
    judged_in: Counter[str] = field(default_factory=Counter)
    failing_in: Counter[str] = field(default_factory=Counter)
    judged_cases: int = 0
    failing_cases: int = 0
    kept: defaultdict[Verdict, KeptCases] = field(default_factory=lambda: defaultdict(KeptCases))
    witness: dict[Verdict, CaseJudged] = field(default_factory=dict)
    simplest: dict[Verdict, CaseJudged] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        return worst(self.witness)

    def count(self, judged: CaseJudged) -> None:
        record = judged.record
        if record.phase not in SCHEDULED or record.verdict is Verdict.UNSUPPORTED:
            return
        self.judged_cases += 1
        self.judged_in.update(record.regions)
        if record.verdict.fails:
            self.failing_cases += 1
            self.failing_in.update(record.regions)
        self.kept[record.verdict].add(judged)


@dataclass
class _PaddingTally:
    promised: bool
    cells: dict[Cell, bool] = field(default_factory=dict)
    tensors: dict[str, None] = field(default_factory=dict)

    def as_facts(self) -> dict[str, Any]:
        leaking = sum(self.cells.values())
        return {
            "promised": self.promised,
            "held": len(self.cells) - leaking,
            "leaked": leaking,
            "tensors": list(self.tensors),
        }


class Tally:
    """Takes every judged case of some targets, by their labels, in order; `ledger` has what is expected."""

    def __init__(
        self, targets: Iterable[str], ledger: Ledger | None = None, strict_expectations: bool = False
    ) -> None:
        self._targets = tuple(targets)
        self._ledger = Ledger() if ledger is None else ledger
        self._strict_expectations = strict_expectations
        self._cells: dict[Cell, _CellTally] = {}
        self._case_set = hashlib.sha256()
        self._findings: list[CellExplained] = []
        self._padding: defaultdict[str, dict[str, _PaddingTally]] = defaultdict(dict)

    def add(self, event: CaseJudged | PaddingChecked | Shrinking | CellExplained | ExpectationChecked) -> None:
        """Count what an event says."""
        match event:
            case CaseJudged():
                self._add_judged(event)
            case CellExplained():
                self._findings.append(event)
            case ExpectationChecked():
                self._ledger.explain(event.entry, event.cell, event.signature)
            case PaddingChecked():
                self._add_padding(event)
            case Shrinking():
                pass

    def _add_judged(self, judged: CaseJudged) -> None:
        record = judged.record
        spec = judged.case.spec
        if record.cell not in self._cells:
            self._cells[record.cell] = _CellTally(ORACLES[spec.loss_type].regions(spec))
        cell = self._cells[record.cell]
        cell.count(judged)
        self._ledger.add(judged)
        if record.phase in SCHEDULED:
            self._case_set.update(record.case_id.encode())
        if record.verdict in _COMPARED:
            cell.compared += 1
            cell.regions.update(record.regions)
        known = cell.witness.get(record.verdict)
        if known is None or _prominence(judged) > _prominence(known):
            cell.witness[record.verdict] = judged
        simplest = cell.simplest.get(record.verdict)
        if simplest is None or _simplicity(judged) < _simplicity(simplest):
            cell.simplest[record.verdict] = judged

    def _add_padding(self, checked: PaddingChecked) -> None:
        line = self._padding[checked.cell.target].setdefault(str(checked.line), _PaddingTally(checked.promised))
        line.cells[checked.cell] = line.cells.get(checked.cell, False) or bool(checked.tensors)
        line.tensors.update(dict.fromkeys(checked.tensors))
        if checked.record is not None:
            self._add_judged(CaseJudged(checked.record, checked.case, 0.0))

    def failing(self, verdicts: Sequence[Verdict]) -> Iterator[CaseJudged]:
        """The failing case that is simplest to shrink, of every cell whose verdict is one of `verdicts`."""
        for cell in list(self._cells.values()):
            if cell.verdict in verdicts and cell.simplest[cell.verdict].record.phase != "padding":
                yield cell.simplest[cell.verdict]

    @property
    def suspects(self) -> Iterator[Suspect]:
        """The failing cells, with the cases that tell what is wrong in them."""
        for cell, tally in self._cells.items():
            if tally.verdict.fails:
                yield Suspect(
                    cell,
                    tally.verdict,
                    tally.kept[tally.verdict].cases,
                    tally.kept[Verdict.CONFORMS].cases,
                    Where(tally.failing_in, tally.judged_in, tally.failing_cases, tally.judged_cases),
                )

    @property
    def to_check(self) -> Iterator[tuple[int, Suspect]]:
        """What expectations cover that say what is wrong, as if it failed: the entry's number, and the cell."""
        for covered in self._ledger.to_explain:
            tally = self._cells[covered.cell]
            yield (
                covered.entry.number,
                Suspect(
                    covered.cell,
                    Verdict.DIVERGES,
                    covered.kept.cases,
                    tally.kept[Verdict.CONFORMS].cases,
                    Where(covered.failing_in, tally.judged_in, covered.failing_cases, tally.judged_cases),
                    covered.entry.signature,
                ),
            )

    @property
    def expectations(self) -> list[Settled]:
        """What became of each expectation, once all cases are judged and what is to be checked is."""
        compared = {cell: tally.regions for cell, tally in self._cells.items() if tally.compared}
        return settle(self._ledger, compared, date.today(), self._strict_expectations)

    @property
    def failures(self) -> Iterator[tuple[CaseJudged, str]]:
        """The witness of every failing cell, and what was found to be wrong there."""
        found = {finding.cell: finding.signature for finding in self._findings}
        for cell, tally in self._cells.items():
            if tally.verdict.fails:
                yield tally.witness[tally.verdict], found.get(cell, "")
        for one in (cell for settled in self.expectations for cell in settled.cells if cell.problem):
            witness = one.covered.witness
            record = replace(witness.record, verdict=Verdict.DIVERGES, message=one.problem)
            yield replace(witness, record=record), one.covered.signature

    @property
    def witnesses(self) -> tuple[Case, ...]:
        """The case that shows each cell's largest divergence at its verdict."""
        return tuple(cell.witness[cell.verdict].case for cell in self._cells.values())

    @property
    def missing_regions(self) -> dict[str, list[str]]:
        """For cells that were compared: the regions their loss needs that no compared case was in."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for cell, tally in self._cells.items():
            absent = missing(tally.spec_regions, tally.regions) if tally.compared else ()
            if absent:
                found[str(cell)] = list(absent)
        return dict(found)

    @property
    def exit_code(self) -> ExitCode:
        """What the verdicts add up to."""
        failing = (cell.verdict.fails for cell in self._cells.values())
        if any(failing) or any(settled.fails for settled in self.expectations):
            return ExitCode.DIVERGES
        compared = dict.fromkeys(self._targets, 0)
        for cell, tally in self._cells.items():
            compared[cell.target] += tally.compared
        if not all(compared.values()) or self.missing_regions:
            return ExitCode.INCOMPARABLE
        return ExitCode.CONFORMS

    @property
    def from_corpus(self) -> dict[str, str]:
        """The names of the corpus cases that failing cells have as their witness, or that it was shrunk from."""
        names = corpus_names()
        failing = (cell.witness[cell.verdict].record for cell in self._cells.values() if cell.verdict.fails)
        return {record.case_id: names[record.description] for record in failing if record.description in names}

    def as_facts(self) -> dict[str, Any]:
        """What a report says of the cases of a run."""
        return {
            "case_set": self._case_set.hexdigest()[:16],
            "corpus": self.from_corpus,
            "missing_regions": self.missing_regions,
            "findings": [finding.as_facts() for finding in self._findings],
            "padding": {
                target: {line: found.as_facts() for line, found in lines.items()}
                for target, lines in self._padding.items()
            },
        }


def _simplicity(judged: CaseJudged) -> tuple[bool, int]:
    """Few tokens, but no completion without any: that is a question of its own."""
    return "row_empty" in judged.record.regions, judged.record.tokens


def _prominence(judged: CaseJudged) -> tuple[bool, bool, float]:
    """A shrunk case first, a large one last, then the largest error / bound; NaN, not compared, last."""
    record = judged.record
    ratios = [ratio for ratio in (record.loss.ratio, record.gradient.ratio) if ratio == ratio]
    return record.phase == "shrunk", record.phase != LARGE, max(ratios, default=-1.0)
