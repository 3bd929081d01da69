"""The judge: what is explained by rounding and what is not, verdict by verdict."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FLOAT16, FLOAT32, DType
from cases.spec import Level, LossSpec, LossType
from harness.judge import Judgement, agree, bits_equal, judge
from harness.outcome import Outcome
from oracles.expectation import Expectation, expect
from reports.records import Verdict


def make_case(
    log_ratios: list[list[float]],
    advantages: list[float] | list[list[float]],
    mask: list[list[int]] | None = None,
    level: Level = Level.TOKEN,
    dtype: DType = FLOAT32,
    epsilon: float = 0.25,
) -> Case:
    ratios = np.array(log_ratios)
    logps = dtype.round(np.full(ratios.shape, -0.5))
    return Case(
        Batch(
            dtype=dtype,
            logps=logps,
            old_logps=dtype.round(logps - ratios),
            ref_logps=None,
            advantages=np.array(advantages, dtype=float),
            mask=np.ones(ratios.shape, bool) if mask is None else np.array(mask, bool),
        ),
        LossSpec(LossType.GRPO, level, epsilon_low=epsilon, epsilon_high=epsilon),
    )


def exact(expectation: Expectation) -> Outcome:
    """The answer that is right to the last bit float64 has."""
    return Outcome("ok", float(expectation.loss.high[0]), expectation.gradients[0].high.copy())


def moved(outcome: Outcome, at: tuple[int, int] | None, by: float) -> Outcome:
    """The answer with the loss (`at` None) or one gradient element moved."""
    if at is None:
        assert outcome.loss is not None
        return replace(outcome, loss=outcome.loss + by)
    assert outcome.gradient is not None
    gradient = outcome.gradient.copy()
    gradient[at] += by
    return replace(outcome, gradient=gradient)


def put(case: Case, at: tuple[int, int] | None, value: float) -> Judgement:
    """Judge the exact answer with one number replaced."""
    expectation = expect(case)
    outcome = exact(expectation)
    if at is None:
        return judge(case, expectation, replace(outcome, loss=value))
    assert outcome.gradient is not None
    gradient = outcome.gradient.copy()
    gradient[at] = value
    return judge(case, expectation, replace(outcome, gradient=gradient))


CASE = make_case([[0.1, -0.1], [0.5, -0.5]], [1.0, -1.0])


@pytest.mark.parametrize("at", [None, (0, 1), (1, 0)])
def test_the_bound_is_the_line(at: tuple[int, int] | None) -> None:
    """Just inside the bound conforms, just outside diverges: for the loss and for each gradient element."""
    expectation = expect(CASE)
    bound = expectation.loss.bound[0] if at is None else expectation.gradients[0].bound[at]
    for share, verdict in ((0.99, Verdict.CONFORMS), (-0.99, Verdict.CONFORMS), (1.01, Verdict.DIVERGES)):
        judgement = judge(CASE, expectation, moved(exact(expectation), at, share * bound))
        assert judgement.verdict is verdict
        divergence = judgement.loss if at is None else judgement.gradient
        assert divergence.ratio == pytest.approx(abs(share), rel=1e-3)


def test_a_divergence_says_where_and_what() -> None:
    """The message names the element, the value got, and what the formula gives."""
    judgement = put(CASE, (1, 0), 7.0)
    assert judgement.gradient_at == (1, 0)
    assert "gradient is 7 at completion 1, token 0" in judgement.message
    assert judgement.gradient.ulps > 1e6


def test_masked_positions_must_be_exactly_zero() -> None:
    """The smallest gradient at a masked position is a divergence, however small."""
    case = make_case([[0.1, 3.0]], [1.0], mask=[[1, 0]])
    judgement = put(case, (0, 1), 5e-324)
    assert judgement.verdict is Verdict.DIVERGES
    assert "masked position" in judgement.message
    assert put(case, (0, 1), -0.0).verdict is Verdict.CONFORMS


def test_nan_where_the_formula_is_finite_diverges() -> None:
    """Without an overflowing intermediate, NaN and infinity are faults."""
    for value in (np.nan, np.inf):
        assert put(CASE, None, value).verdict is Verdict.DIVERGES
        judgement = put(CASE, (0, 0), value)
        assert judgement.verdict is Verdict.DIVERGES
        assert judgement.gradient.ratio == np.inf


def test_overflow_excuses_its_own_token_only() -> None:
    """At token level a ratio beyond the dtype excuses the loss and that token's gradient, nobody else's."""
    case = make_case([[100.0, 0.1], [0.1, 0.1]], [1.0, 1.0])
    assert put(case, (0, 0), np.nan).verdict is Verdict.OVERFLOW
    assert put(case, None, np.nan).verdict is Verdict.OVERFLOW
    assert put(case, (0, 1), np.nan).verdict is Verdict.DIVERGES
    # All that is finite is still compared: the clip makes this element 0.
    assert put(case, (0, 0), 0.25).verdict is Verdict.DIVERGES
    assert put(case, (0, 0), 0.0).verdict is Verdict.CONFORMS


def test_overflow_at_sequence_level_excuses_the_row() -> None:
    """The ratio belongs to the completion: its masked positions are excused too, other rows are not."""
    case = make_case([[100.0, 100.0], [0.1, 0.1]], [1.0, 1.0], mask=[[1, 0], [1, 1]], level=Level.SEQUENCE)
    assert put(case, (0, 0), np.nan).verdict is Verdict.OVERFLOW
    assert put(case, (0, 1), np.nan).verdict is Verdict.OVERFLOW
    assert put(case, (1, 1), np.nan).verdict is Verdict.DIVERGES


def test_overflow_words_tell_what_the_formula_gives() -> None:
    """NaN where the formula is finite reads otherwise than infinity where the formula is beyond the dtype."""
    clipped = put(make_case([[100.0]], [1.0]), (0, 0), np.nan)
    assert clipped.message == "gradient NaN or infinite where the formula is finite"
    unclipped = put(make_case([[100.0]], [-1.0]), (0, 0), np.inf)
    assert unclipped.message == "gradient not finite, beyond the dtype in the formula too"


def test_at_a_kink_each_outcome_is_accepted_and_nothing_between() -> None:
    """Where rounding cannot tell ratio from bound, 0, 1/2, 3/4 and 1 of the gradient conform; 1/3 does not."""
    case = make_case([[float(np.log(1.25))]], [1.0])
    whole = -1.25
    for share in (0.0, 0.5, 0.75, 1.0):
        assert put(case, (0, 0), share * whole).verdict is Verdict.CONFORMS
    for share in (1 / 3, 0.25, 2.0, -0.5):
        assert put(case, (0, 0), share * whole).verdict is Verdict.DIVERGES


def test_several_decisions_in_one_element_span_a_hull() -> None:
    """At sequence level with advantages that differ within the row, everything between the extremes conforms."""
    at_bound = float(np.log(1.25))
    case = make_case([[at_bound, at_bound]], [[1.0, 2.0]], level=Level.SEQUENCE)
    expectation = expect(case)
    assert expectation.hull is not None
    whole = -1.25 * (1.0 + 2.0) / 4
    for share in (0.0, 0.1, 1 / 3, 2 / 3, 1.0):
        outcome = Outcome("ok", float(expectation.loss.high[0]), np.full((1, 2), share * whole))
        assert judge(case, expectation, outcome).verdict is Verdict.CONFORMS
    for share in (-0.1, 1.1):
        outcome = Outcome("ok", float(expectation.loss.high[0]), np.full((1, 2), share * whole))
        assert judge(case, expectation, outcome).verdict is Verdict.DIVERGES


@pytest.mark.parametrize("status", ["unsupported", "error", "crash", "timeout"])
def test_what_is_no_answer_has_its_own_verdict(status: str) -> None:
    """The target's words are kept."""
    judgement = judge(CASE, expect(CASE), Outcome(status, message="because"))  # type: ignore[arg-type]
    assert judgement.verdict == status
    assert judgement.message == "because"


def test_answers_agree_within_twice_the_bound() -> None:
    """Two answers to one case may differ by rounding, not by more; equal bits are a fact of their own."""
    expectation = expect(CASE)
    first = exact(expectation)
    bound = expectation.loss.bound[0]
    assert agree(expectation, first, moved(first, None, 1.99 * bound))
    assert not agree(expectation, first, moved(first, None, 2.01 * bound))
    assert not agree(expectation, first, moved(first, (0, 0), 1e-3))
    assert not agree(expectation, first, replace(first, loss=np.nan))
    assert not agree(expectation, first, Outcome("error"))
    assert bits_equal(first, first) is True
    assert bits_equal(first, moved(first, (0, 0), 1e-16)) is False
    assert bits_equal(first, Outcome("error")) is None


def test_at_a_kink_two_answers_may_be_different_outcomes() -> None:
    """A target that decides a tie otherwise the second time has rounded otherwise, no more."""
    case = make_case([[float(np.log(1.25))]], [1.0])
    expectation = expect(case)
    first = exact(expectation)
    other = replace(first, gradient=np.zeros((1, 1)))
    assert agree(expectation, first, other)
    assert not agree(expectation, first, replace(first, gradient=np.full((1, 1), 3.0)))


def test_counts_that_overflow_are_a_finite_fault() -> None:
    """A finite wrong answer in float16 is no overflow: it is compared like any other."""
    case = make_case([[0.1] * 4] * 4, [1.0] * 4, dtype=FLOAT16)
    assert put(case, None, 0.0).verdict is Verdict.DIVERGES
