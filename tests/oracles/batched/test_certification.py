"""The batched oracle is the literal one: value, gradient, bound, undecided decisions, overflow, jumps, verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import cycle, product

import numpy as np
import pytest
from batched_equality import assert_same

from cases.case import Case
from cases.conventions import (
    CispoClip,
    Conventions,
    EmptyRows,
    KLAggregation,
    KLBounded,
    SequenceGradient,
    WindowTokens,
)
from cases.dtypes import DTYPES, DType, FloatArray
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import KLEstimator, Level, LossType
from harness.generation import schedule
from harness.judge import judge
from harness.outcome import Outcome
from oracles.batched import dispatch
from oracles.batched.expectation import expect
from oracles.expectation import Expectation
from oracles.expectation import expect as literally
from reports.records import Verdict

SCHEDULE = schedule(16, 0)
CELLS = tuple(product(LossType, Level, (0.0, 0.04)))
ONE_ROW_A_PIECE = 3

CONVENTIONS = (
    Conventions(dual_clip=3.0, empty_rows=EmptyRows.NOT_COUNTED),
    Conventions(dual_clip=1.5, sequence_gradient=SequenceGradient.TOKEN, denominator_epsilon=1e-8),
    Conventions(log_ratio_bounds=(-0.5, 0.25), kl_log_ratio_bound=0.5, kl_bound=0.25),
    Conventions(log_ratio_bounds=(None, 20.0), kl_bound=10.0, kl_bounded=KLBounded.EXPONENTIAL),
    Conventions(kl_aggregation=KLAggregation.TOKEN_MEAN, window_tokens=WindowTokens.GENERATION_AVERAGE),
    Conventions(
        kl_aggregation=KLAggregation.TOKEN_MEAN,
        cispo_clip=CispoClip.TWO_SIDED,
        denominator_epsilon=1e-4,
        sequence_gradient=SequenceGradient.TOKEN,
    ),
    Conventions(cispo_clip=CispoClip.TWO_SIDED, kl_bound=0.05, window_tokens=WindowTokens.GENERATION_AVERAGE),
)


def made(number: int, dtype: DType, loss_type: LossType, level: Level, beta: float) -> Case:
    description = SCHEDULE[number].description
    return case_for(description, realise(description, dtype, level), loss_type, level, beta)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_schedule(dtype: DType) -> None:
    """On every description of a run, in a sixth of all cells each, whole or one completion at a time."""
    seen: Counter[str] = Counter()
    for number in range(len(SCHEDULE)):
        for cell in CELLS[number % 6 :: 6]:
            case = made(number, dtype, *cell)
            literal = literally(case)
            batched = expect(case, piece=ONE_ROW_A_PIECE) if number % 2 else expect(case)
            assert_same(literal, batched, dtype)
            seen.update(undecided=literal.undecided, jumps=bool(literal.others), overflows=literal.loss_overflows)
            seen.update(hulls=literal.hull is not None)
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize("conventions", CONVENTIONS, ids=range(len(CONVENTIONS)))
def test_conventions(conventions: Conventions) -> None:
    """With what libraries settle differently, and every estimator of the KL divergence."""
    estimators, dtypes = cycle(KLEstimator), cycle(DTYPES.values())
    for number in range(0, len(SCHEDULE), 2):
        dtype = next(dtypes)
        for cell in CELLS[number % 7 :: 7]:
            case = made(number, dtype, *cell)
            spec = replace(case.spec, conventions=conventions)
            if case.spec.beta > 0:
                spec = replace(spec, kl_estimator=next(estimators))
            case = replace(case, spec=spec)
            batched = expect(case, piece=ONE_ROW_A_PIECE) if number % 4 else expect(case)
            assert_same(literally(case), batched, dtype)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_verdicts(dtype: DType) -> None:
    """Answers at the bound conform and answers just beyond it diverge, by either oracle."""
    verdicts: Counter[Verdict] = Counter()
    for number in range(0, len(SCHEDULE), 5):
        for cell in CELLS[number % 9 :: 9]:
            case = made(number, dtype, *cell)
            literal, batched = literally(case), expect(case)
            if literal.loss_overflows or not np.isfinite(literal.gradients[0].bound).all():
                continue
            for factor in (0.999, 1.001):
                answer = _answer(literal, factor)
                expected = judge(case, literal, answer).verdict
                assert judge(case, batched, answer).verdict is expected
                verdicts[expected] += 1
    assert verdicts[Verdict.CONFORMS] > 20
    assert verdicts[Verdict.DIVERGES] > 20


def test_dispatch() -> None:
    """Few tokens go to the literal oracle, many to the batched one, which has no second float64 in float32."""
    sizes = {True: 0, False: 0}
    for number in range(len(SCHEDULE)):
        case = made(number, DTYPES["float32"], LossType.GRPO, Level.TOKEN, 0.04)
        found, literal = dispatch.expect(case), literally(case)
        assert_same(literal, found, case.batch.dtype)
        few = case.batch.tokens <= dispatch.FEW
        sizes[few] += 1
        assert few == bool((found.loss.bound == literal.loss.bound).all())
    assert min(sizes.values()) > 0


def _answer(expectation: Expectation, factor: float) -> Outcome:
    """The exact answer, moved by so much of the bound in the loss and in every other element."""
    exact = expectation.gradients[-1]
    gradient: FloatArray = exact.high + factor * exact.bound
    gradient[:, ::2] = exact.high[:, ::2]
    loss = expectation.loss
    return Outcome("ok", float(loss.high[0] - factor * loss.bound[0]), gradient)
