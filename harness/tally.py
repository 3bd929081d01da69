"""What a run has seen so far, per cell: witnesses, failing cases, regions, and the exit code they add up to."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from cases.case import Case
from cases.regions import missing
from harness.events import CaseJudged, PaddingChecked, Shrinking
from harness.exit_codes import ExitCode
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
    witness: dict[Verdict, CaseJudged] = field(default_factory=dict)
    simplest: dict[Verdict, CaseJudged] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        return worst(self.witness)


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
    """Takes every judged case of some targets, by their labels, in order."""

    def __init__(self, targets: Sequence[str]) -> None:
        self._targets = tuple(targets)
        self._cells: dict[Cell, _CellTally] = {}
        self._case_set = hashlib.sha256()
        self._padding: defaultdict[str, dict[str, _PaddingTally]] = defaultdict(dict)

    def add(self, event: CaseJudged | PaddingChecked | Shrinking) -> None:
        """Count what an event says."""
        match event:
            case CaseJudged():
                self._add_judged(event)
            case PaddingChecked():
                self._add_padding(event)
            case Shrinking():
                pass

    def _add_judged(self, judged: CaseJudged) -> None:
        record = judged.record
        spec = judged.case.spec
        cell = self._cells.setdefault(record.cell, _CellTally(ORACLES[spec.loss_type].regions(spec)))
        if record.phase in ("regions", "drawn"):
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
        if any(cell.verdict.fails for cell in self._cells.values()):
            return ExitCode.DIVERGES
        compared = dict.fromkeys(self._targets, 0)
        for cell, tally in self._cells.items():
            compared[cell.target] += tally.compared
        if not all(compared.values()) or self.missing_regions:
            return ExitCode.INCOMPARABLE
        return ExitCode.CONFORMS

    def as_facts(self) -> dict[str, Any]:
        """What a report says of the cases of a run."""
        return {
            "case_set": self._case_set.hexdigest()[:16],
            "missing_regions": self.missing_regions,
            "padding": {
                target: {line: found.as_facts() for line, found in lines.items()}
                for target, lines in self._padding.items()
            },
        }


def _simplicity(judged: CaseJudged) -> tuple[bool, int]:
    """Few tokens, but no completion without any: that is a question of its own."""
    return "row_empty" in judged.record.regions, judged.record.tokens


def _prominence(judged: CaseJudged) -> tuple[bool, float]:
    """A shrunk case first, then the largest error / bound; NaN, not compared, last."""
    record = judged.record
    ratios = [ratio for ratio in (record.loss.ratio, record.gradient.ratio) if ratio == ratio]
    return record.phase == "shrunk", max(ratios, default=-1.0)
