"""A parity check: every execution asked, judged, and compared with the first."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from cases.case import Case
from harness.asking import Contestant
from harness.exit_codes import ExitCode
from harness.parity.asking import Answers
from harness.parity.comparing import apart, pair_verdict
from harness.parity.explaining import contract_of, explanation
from harness.parity.facts import ByCell, facts_of, precision_of
from harness.parity.findings import findings_of, notes_of
from harness.parity.judged import Judged, judged, verdict_of, worst_of
from harness.parity.plan import ParityPlan
from harness.parity.questions import CellKey, Questioner, cells_of
from harness.parity.session import Open, Tick, session
from harness.provenance import version_of_lossgate
from oracles.batched.dispatch import expect
from oracles.expectation import Expectation
from oracles.named_contracts import NAMED, ORDINARY, expect_under
from reports.parity import (
    Pair,
    Parity,
    ParityCell,
    Voice,
)
from reports.records import Verdict


@dataclass(frozen=True)
class Checked:
    """What a parity check found, and the cases that show what fails, by their ids."""

    parity: Parity
    witnesses: Mapping[str, Case]


def check(plan: ParityPlan, tick: Tick) -> Checked:
    """Carry out a plan. Raises `TargetUnavailable` when a target does not start, and not for want of a device."""
    with session(plan) as running:
        open_ones = [one for one in running.opened if one.lanes]
        questioner = Questioner(plan.cells)
        questions = {
            cell: [*questioner.ordinary(cell), *(questioner.long(cell) if _is_asked_long(plan, cell) else ())]
            for cell in cells_of(plan.cells)
            if any(one.one.takes(cell.loss_type, cell.level, cell.dtype) for one in open_ones)
        }
        tick(0)
        oracle = _Oracle(plan.contract)
        found = [
            (one, {cell: _judged(one.one, answers, oracle) for cell, answers in by_cell.items()})
            for one, by_cell in running.answers(questions, tick)
        ]
    return _reported(plan, running.opened, found, list(questions))


def _is_asked_long(plan: ParityPlan, cell: CellKey) -> bool:
    """Sums are alike with and without a KL term: one beta is enough."""
    return cell.beta == min(plan.cells.betas)


class _Oracle:
    """Expectations under the contract in force; executions that are asked the same case share them."""

    def __init__(self, contract: str) -> None:
        self._contract = contract
        self._known: dict[str, Expectation] = {}

    def expect(self, case: Case) -> Expectation:
        key = case.id
        if key not in self._known:
            if self._contract == ORDINARY:
                self._known[key] = expect(case)
            else:
                self._known[key] = expect_under(case, NAMED[self._contract](case.batch.dtype))
        return self._known[key]


def _judged(one: Contestant, answers: Iterable[Answers], oracle: _Oracle) -> list[Judged]:
    found = []
    for answer in answers:
        case = one.under_conventions(answer.question.case)
        found.append(judged(one, answer, case, oracle.expect(case)))
    return found


def _reported(
    plan: ParityPlan, opened: Sequence[Open], found: Sequence[tuple[Open, ByCell]], cells: Sequence[CellKey]
) -> Checked:
    names = dict(zip(plan.executions, plan.names, strict=True))
    by_execution = {one.execution: by_cell for one, by_cell in found}
    contracts = {
        names[one.execution]: contract_of(chain.from_iterable(by_cell.values()), plan.contract)
        for one, by_cell in found
    }
    reported = [
        _cell(cell, {names[one.execution]: by_cell.get(cell, []) for one, by_cell in found}, contracts)
        for cell in cells
    ]
    executions = tuple(facts_of(names[one.execution], one, by_execution.get(one.execution, {})) for one in opened)
    precisions = tuple(
        precision_of(names[one.execution], dtype.name, by_cell, reported)
        for dtype in plan.cells.dtypes
        for one, by_cell in found
    )
    shown = {voice.witness for cell in reported for voice in cell.voices if voice.verdict.fails}
    cases = {one.case.id: one.case for _, by_cell in found for many in by_cell.values() for one in many}
    return Checked(
        Parity(
            target=plan.target,
            executions=executions,
            cells=tuple(reported),
            precisions=precisions,
            findings=findings_of(plan, executions, reported, precisions),
            notes=notes_of(executions),
            about=_about(plan, cases),
            exit_code=int(_exit_code(plan, found, reported)),
        ),
        {name: cases[name] for name in sorted(shown)},
    )


def _cell(cell: CellKey, answered: Mapping[str, list[Judged]], contracts: Mapping[str, str]) -> ParityCell:
    taking = {name: cases for name, cases in answered.items() if cases}
    reference = next(iter(answered))
    return ParityCell(
        loss_type=str(cell.loss_type),
        level=str(cell.level),
        beta=cell.beta,
        dtype=cell.dtype.name,
        voices=tuple(_voice(name, cases, contracts[name]) for name, cases in taking.items()),
        pairs=tuple(
            Pair(name, pair_verdict(taking[reference], cases), apart(taking[reference], cases))
            for name, cases in taking.items()
            if reference in taking and name != reference
        ),
    )


def _voice(name: str, cases: Sequence[Judged], contract: str) -> Voice:
    verdict = verdict_of(cases)
    shown = worst_of([one for one in cases if one.judgement.verdict is verdict])
    answered = [one for one in cases if one.judgement.verdict is not Verdict.UNSUPPORTED]
    return Voice(
        execution=name,
        verdict=verdict,
        cases=len(answered),
        loss_ratio=_largest(one.judgement.loss.ratio for one in cases),
        gradient_ratio=_largest(one.judgement.gradient.ratio for one in cases),
        message="" if verdict is Verdict.CONFORMS else shown.judgement.message.partition("\n")[0],
        explanation=explanation(cases, contract),
        witness=shown.case.id,
    )


def _largest(ratios: Iterable[float]) -> float:
    return max((ratio for ratio in ratios if not math.isnan(ratio)), default=math.nan)


def _about(plan: ParityPlan, cases: Iterable[str]) -> dict[str, Any]:
    return {
        "lossgate": version_of_lossgate(),
        "seed": plan.cells.seed,
        "examples": plan.cells.examples,
        "contract": plan.contract,
        "case_set": hashlib.sha256("".join(sorted(cases)).encode()).hexdigest()[:16],
    }


def _exit_code(plan: ParityPlan, found: Sequence[tuple[Open, ByCell]], cells: Sequence[ParityCell]) -> ExitCode:
    voices = [voice for cell in cells for voice in cell.voices if voice.verdict is not Verdict.UNSUPPORTED]
    if any(voice.verdict.fails for voice in voices):
        return ExitCode.DIVERGES
    if not voices or len(found) < min(2, len(plan.executions)):
        return ExitCode.INCOMPARABLE
    return ExitCode.CONFORMS
