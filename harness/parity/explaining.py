"""What explains that an execution is outside the bound in a cell: a contract, an accumulator, a signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


def explanation(cases: Sequence[Judged], in_force: str) -> str:
    """One line on what is wrong, "" where nothing diverges; the first that accounts for every failing case.

    A contract that has a name and is not in force; sums in an accumulator of low precision; what the signature of
    a run would say.
    """
    failing = [one for one in cases if one.judgement.verdict is Verdict.DIVERGES]
    if not failing:
        return ""
    for words in (*_contracts(failing, in_force), *_accumulators(cases, failing)):
        return words
    return _signature(cases, failing)


def _contracts(failing: Sequence[Judged], in_force: str) -> Iterator[str]:
    for name, contract in NAMED.items():
        if name not in (ORDINARY, in_force) and _all_within(failing, contract):
            yield f"would hold under contract {name} (--contract {name})"


def _accumulators(cases: Sequence[Judged], failing: Sequence[Judged]) -> Iterator[str]:
    """Sums in a half type, where only long completions show it and a control of that shape is right.

    The bound of a long sum in such an accumulator is wide: that it holds says little by itself. That the same
    computation is right where the sum is short, at the same shape, and that gradients keep their own bound, says
    more.
    """
    dtype = failing[0].case.batch.dtype
    if dtype.unit_roundoff <= FLOAT32.unit_roundoff:
        return
    controls = [one for one in cases if one.question.purpose is Purpose.CONTROL]
    if not controls or any(one.judgement.verdict is not Verdict.CONFORMS for one in controls):
        return
    if any(one.question.purpose is not Purpose.LONG for one in failing):
        return
    if _all_within(failing, lambda own: accumulates_in(own, own)):
        yield f"sums are accumulated in {dtype.name}; the contract is {FLOAT32.name} or better"


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
