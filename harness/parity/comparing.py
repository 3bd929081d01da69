"""Two executions in one cell: what the oracle says of each, and how far their answers are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from harness.judge import bits_equal
from harness.parity.judged import Judged, verdict_of
from oracles.expectation import Expectation
from reports.parity import Apart, PairVerdict
from reports.records import Verdict

_WITHIN: Final = (Verdict.CONFORMS, Verdict.OVERFLOW)


def pair_verdict(reference: Sequence[Judged], other: Sequence[Judged]) -> PairVerdict:
    """The three-way verdict on a cell."""
    ours, theirs = verdict_of(reference), verdict_of(other)
    if Verdict.UNSUPPORTED in (ours, theirs):
        return PairVerdict.NOT_COMPARED
    if ours.fails and theirs.fails:
        return PairVerdict.BOTH_OUTSIDE
    if ours.fails:
        return PairVerdict.REFERENCE_OUTSIDE
    if theirs.fails:
        return PairVerdict.OTHER_OUTSIDE
    if ours in _WITHIN and theirs in _WITHIN:
        return PairVerdict.EQUAL
    return PairVerdict.KNOWN


def apart(reference: Sequence[Judged], other: Sequence[Judged]) -> Apart:
    """How far the answers of two executions to the same cases are apart."""
    theirs = {one.question.case.id: one for one in other}
    pairs = [
        (one, theirs[one.question.case.id])
        for one in reference
        if one.question.case.id in theirs and _comparable(one, theirs[one.question.case.id])
    ]
    same = [bits_equal(ours.outcome, its.outcome) is True for ours, its in pairs]
    return Apart(
        cases=len(pairs),
        same_bits=sum(same),
        loss_ulps=max((_loss_ulps(ours, its) for ours, its in pairs), default=math.nan),
        gradient_ulps=max((_gradient_ulps(ours, its) for ours, its in pairs), default=math.nan),
    )


def _comparable(ours: Judged, theirs: Judged) -> bool:
    """Whether both gave numbers, and the conventions that each is judged by come to the same formula here."""
    if ours.outcome.status != "ok" or theirs.outcome.status != "ok":
        return False
    first, second = ours.expectation, theirs.expectation
    return _decided(first) and _decided(second) and _same_formula(first, second)


def _decided(expectation: Expectation) -> bool:
    """Whether rounding decides no jump of the value: both sides of one are right, and far apart."""
    return not expectation.others


def _same_formula(first: Expectation, second: Expectation) -> bool:
    if first is second:
        return True
    same_loss = np.array_equal(first.loss.high, second.loss.high, equal_nan=True)
    ours, theirs = first.gradients[0].high, second.gradients[0].high
    return bool(same_loss and np.array_equal(ours, theirs, equal_nan=True))


def _loss_ulps(ours: Judged, theirs: Judged) -> float:
    assert ours.outcome.loss is not None, "asked of numbers only"
    assert theirs.outcome.loss is not None, "asked of numbers only"
    if not (math.isfinite(ours.outcome.loss) and math.isfinite(theirs.outcome.loss)):
        same = np.array_equal([ours.outcome.loss], [theirs.outcome.loss], equal_nan=True)
        return 0.0 if same else math.inf
    ulp = float(ours.case.batch.dtype.ulp(ours.expectation.loss.high)[0])
    return abs(ours.outcome.loss - theirs.outcome.loss) / ulp


def _gradient_ulps(ours: Judged, theirs: Judged) -> float:
    """Of the element at which the distance is largest as a part of the bound; undecided ones have two answers."""
    first, second = ours.outcome.gradient, theirs.outcome.gradient
    assert first is not None, "asked of numbers only"
    assert second is not None, "asked of numbers only"
    gradients = ours.expectation.gradients
    if (np.isfinite(first) != np.isfinite(second)).any():
        return math.inf
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        distance = np.abs(first - second)
        decided = np.isfinite(distance) & (distance > 0.0)
        for one in gradients[1:]:
            decided &= one.high == gradients[0].high
        if ours.expectation.hull is not None:
            decided &= np.isnan(ours.expectation.hull[0])
        if not decided.any():
            return 0.0
        share = np.where(decided, distance / np.maximum(gradients[0].bound, np.finfo(float).tiny), 0.0)
    at = np.unravel_index(int(np.argmax(share)), share.shape)
    return float(distance[at] / ours.case.batch.dtype.ulp(gradients[0].high[at]))
