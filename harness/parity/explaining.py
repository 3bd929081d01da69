"""What explains that an execution is outside the bound in a cell: a contract, an accumulator, a signature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from cases.dtypes import FLOAT32, DType
from harness.judge import judge
from harness.parity.judged import Judged
from harness.parity.questions import Purpose
from harness.signature.evidence import Answered, Evidence, Where
from harness.signature.signature import signature, strongest_first
from oracles.contract import Contract
from oracles.named_contracts import NAMED, ORDINARY, accumulates_in, expect_under
from reports.records import Verdict

MOST_EXPLAINED: Final = 8
"""Failing cases that a signature is read off."""

_RIGHT: Final = (Verdict.CONFORMS, Verdict.OVERFLOW)
_NOWHERE: Final = Where({}, {}, 0, 0)


def contract_of(cases: Iterable[Judged], in_force: str) -> str:
    """The first named contract, not in force, that accounts for all that an execution fails in any cell.

    "" where there is none, or nothing fails. In a half type it would excuse many a fault that a wider one shows.
    """
    failing = _failing(cases)
    names = (name for name in NAMED if name not in (ORDINARY, in_force))
    return next((name for name in names if failing and _all_within(failing, NAMED[name])), "")


def explanation(cases: Sequence[Judged], contract: str) -> str:
    """One line on what is wrong in a cell, the first that accounts for all that fails; "" where nothing diverges.

    The `contract` that accounts for all that the execution fails; sums in an accumulator of low precision; what
    the signature of a run would say.
    """
    failing = _failing(cases)
    if not failing:
        return ""
    if contract:
        return f"would hold under contract {contract} (--contract {contract})"
    for words in _accumulators(cases, failing):
        return words
    return _signature(cases, failing)


def _failing(cases: Iterable[Judged]) -> list[Judged]:
    return [one for one in cases if one.judgement.verdict is Verdict.DIVERGES]


def _accumulators(cases: Sequence[Judged], failing: Sequence[Judged]) -> Iterator[str]:
    """Sums in a half type, where only long completions show it and a control of that shape is right.

    The bound of a long sum in such an accumulator is wide: that it holds says little by itself. That the same
    computation is right where the sum is short, at the same shape, that gradients keep their own bound, and that
    what is added up, which is of one sign, falls short of the sum, says more.
    """
    dtype = failing[0].case.batch.dtype
    if dtype.unit_roundoff <= FLOAT32.unit_roundoff:
        return
    controls = [one for one in cases if one.question.purpose is Purpose.CONTROL]
    if not controls or any(one.judgement.verdict is not Verdict.CONFORMS for one in controls):
        return
    if any(one.question.purpose is not Purpose.LONG for one in failing):
        return
    if all(map(_falls_short, failing)) and _all_within(failing, lambda own: accumulates_in(own, own)):
        yield f"sums are accumulated in {dtype.name}; the contract is {FLOAT32.name} or better"


def _falls_short(one: Judged) -> bool:
    exact, loss = float(one.expectation.loss.high[0]), one.outcome.loss
    return loss is not None and 0.0 < loss / exact < 1.0


def _all_within(failing: Sequence[Judged], contract: Callable[[DType], Contract]) -> bool:
    return all(
        judge(one.case, expect_under(one.case, contract(one.case.batch.dtype)), one.outcome).verdict in _RIGHT
        for one in failing
    )


def _signature(cases: Sequence[Judged], failing: Sequence[Judged]) -> str:
    small = [one for one in failing if one.question.purpose is Purpose.ORDINARY]
    if not small:
        one = failing[0]
        return f"only completions of {one.case.batch.columns:,} tokens show it: {one.judgement.message}"
    conforming = [
        one
        for one in cases
        if one.judgement.verdict is Verdict.CONFORMS and one.question.purpose is Purpose.ORDINARY
    ]
    evidence = Evidence(
        failing=tuple(strongest_first([Answered(one.case, one.outcome) for one in small]))[:MOST_EXPLAINED],
        conforming=tuple(Answered(one.case, one.outcome) for one in conforming[:MOST_EXPLAINED]),
        where=_NOWHERE,
    )
    return signature(evidence).text
