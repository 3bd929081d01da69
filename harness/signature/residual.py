"""What is added to a loss whose gradient is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cases.case import Case
from cases.dtypes import FloatArray
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Explanation, share
from reports.records import Verdict

Added = Callable[[Case], float]


def residual(evidence: Evidence) -> Iterator[Explanation]:
    """What accounts for the difference in every failing case, where no gradient is wrong."""
    if any(one.judgement.gradient.ratio > 1.0 for one in evidence.numbers):
        return
    for words, added in _ADDED.items():

        def explains(one: Answered, added: Added = added) -> bool:
            if one.judgement.verdict is Verdict.CONFORMS or one.outcome.loss is None:
                return True
            more, exact = added(one.case), one.expectation.loss
            rounding = exact.bound[0] + abs(more) * one.case.batch.dtype.unit_roundoff * _ROUNDINGS
            return bool(abs(one.outcome.loss - exact.high[0] - more) <= rounding)

        yield Explanation(words, share(evidence, explains))


def _masked(case: Case) -> FloatArray:
    """Advantages of masked positions, 0 elsewhere, as (B, T)."""
    masked: FloatArray = case.batch.token_advantages * ~case.batch.mask
    return masked


def _empty_rows(case: Case) -> float:
    empty = case.batch.lengths == 0
    return -float(case.batch.token_advantages[empty, 0].sum()) / case.batch.rows


def _by_length(case: Case) -> float:
    lengths = case.batch.lengths.clip(min=1)
    return -float((_masked(case).sum(axis=1) / lengths).sum()) / case.batch.rows


def _by_tokens(case: Case) -> float:
    return -float(_masked(case).sum()) / max(case.batch.tokens, 1)


def _by_horizon(case: Case) -> float:
    return -float(_masked(case).sum()) / (case.batch.rows * case.spec.max_completion_length)


_ROUNDINGS: Final = 8.0
_ADDED: Final[dict[str, Added]] = {
    "completions without tokens add -A / B to the loss": _empty_rows,
    "masked positions add -A / (length x B) to the loss": _by_length,
    "masked positions add -A / N to the loss": _by_tokens,
    "masked positions add -A / (B x max_completion_length) to the loss": _by_horizon,
}
