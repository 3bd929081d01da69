"""Minima and clips: decided, undecided within rounding, and what a gradient may then be."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from flint import arb

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from cases.spec import Level, LossSpec, LossType
from oracles.completions import Formula
from oracles.contract import Contract
from oracles.expectation import Expectation, expect
from oracles.operations import clip, exp, minimum
from oracles.registry import ORACLES
from oracles.scalar import Scalar
from oracles.sweep import Gradient, gradient
from oracles.tape import Tape

LOW, HIGH = math.log(0.75), math.log(1.25)


def tape_of(dtype: DType = FLOAT32) -> Tape:
    return Tape(Contract.of(dtype), dtype.holds)


def surrogate(ratio: Scalar, advantage: Scalar) -> Scalar:
    bounds = (ratio.tape.number(bound) for bound in (0.75, 1.25))
    return minimum(ratio * advantage, clip(ratio, *bounds) * advantage)


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize(
    ("log_ratio", "advantage_clipped"),
    [(0.0, None), (-0.25, None), (0.2, None), (0.5, 1.0), (-0.5, -1.0)],
)
def test_decided_surrogate(log_ratio: float, advantage_clipped: float | None, advantage: float) -> None:
    """Away from the bounds nothing is undecided: -r A and its derivative, or the bound and none."""
    tape = tape_of()
    logp = tape.leaf(log_ratio)
    ratio = exp(logp)
    found = surrogate(ratio, tape.exact(advantage))
    (outcome,) = gradient(found, [logp]).outcomes
    assert tape.undecided == []
    if advantage == advantage_clipped:
        assert outcome.values == (0,)
        assert found.value == advantage * (1.25 if log_ratio > 0 else 0.75)
    else:
        assert outcome.values[0].overlaps(ratio.value * advantage)
        assert found.value.overlaps(ratio.value * advantage)


def test_interior_tie_is_no_decision() -> None:
    """r A and clip(r) A with r inside are one computation: the minimum of them is either."""
    tape = tape_of()
    ratio = exp(tape.leaf(0.1))
    advantage = tape.exact(1.5)
    assert clip(ratio, tape.number(0.75), tape.number(1.25)) is ratio
    ours, theirs = ratio * advantage, ratio * advantage
    assert minimum(ours, theirs) is ours
    assert minimum(ours, ours) is ours
    assert tape.undecided == []


def test_equal_numbers_computed_apart_are_a_decision() -> None:
    """Two computations of one number may round apart, whichever way: undecided."""
    tape = tape_of()
    x, y = tape.leaf(0.1015625), tape.leaf(0.1015625)
    either = minimum(exp(x) * 3.0, exp(y) * 3.0)
    assert tape.undecided == [either]
    outcomes = [outcome.values for outcome in gradient(either, [x, y]).outcomes]
    slope = 3 * x.value.exp()
    for share, values in zip((1.0, 0.0, 0.5), outcomes, strict=True):
        assert values[0].overlaps(slope * share)
        assert values[1].overlaps(slope * (1 - share))


def test_far_apart_minimum_is_one_of_its_operands() -> None:
    """Where rounding cannot decide otherwise, the minimum is the smaller operand itself."""
    tape = tape_of()
    small, large = exp(tape.leaf(-0.5)), exp(tape.leaf(-0.499))
    assert minimum(small, large) is small
    assert minimum(large, small) is small
    low, high = tape.number(0.75), tape.number(1.25)
    assert clip(exp(tape.leaf(-1.0)), low, high) is low
    assert clip(exp(tape.leaf(1.0)), low, high) is high


def one_token(dtype: DType, log_ratio: float, advantage: float) -> Case:
    """A batch of one token near a bound of [0.75, 1.25]."""
    tensors = (np.array([[value]]) for value in (min(log_ratio, 0.0), min(-log_ratio, 0.0)))
    batch = Batch(dtype, *tensors, None, np.array([advantage]), np.ones((1, 1), dtype=bool))
    return Case(batch, LossSpec(LossType.GRPO, epsilon_low=0.25, epsilon_high=0.25))


def slopes_of(case: Case) -> Gradient:
    formula = Formula.of(case)
    return gradient(ORACLES[case.spec.loss_type].loss(formula), list(formula.leaves.values()))


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("bound", [LOW, HIGH])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_outcomes_at_a_bound(dtype: DType, bound: float, advantage: float) -> None:
    """Within rounding of either bound, for either sign: 0, half, three quarters or all of the policy term.

    Three quarters is half of the minimum's and half of what a clip written with a minimum passes of the rest.
    """
    case = one_token(dtype, float(dtype.round(bound)), advantage)
    found = slopes_of(case)
    policy = -advantage * arb(float(case.batch.log_ratios[0, 0])).exp()
    shares = {share: policy * share for share in (0.0, 0.5, 0.75, 1.0)}
    met = [
        [share for share, value in shares.items() if value.overlaps(outcome.values[0])]
        for outcome in found.outcomes
    ]
    assert all(len(shares_met) == 1 for shares_met in met)
    assert {shares_met[0] for shares_met in met} == set(shares)
    assert found.hull is None


@pytest.mark.parametrize("ulps", [-64, 64])
@pytest.mark.parametrize("bound", [LOW, HIGH])
def test_a_few_ulps_from_a_bound_everything_is_decided(bound: float, ulps: int) -> None:
    """64 ulps away the clip certainly acts or certainly does not."""
    log_ratio = float(FLOAT32.round(bound + ulps * float(FLOAT32.ulp(bound))))
    for advantage in (1.0, -1.0):
        expectation = expect(one_token(FLOAT32, log_ratio, advantage))
        assert not expectation.undecided
        clipped = (bound, np.sign(ulps), advantage) in ((HIGH, 1, 1.0), (LOW, -1, -1.0))
        assert (expectation.gradients[0].high[0, 0] == 0.0) == clipped


def at_the_bound(per_token: list[float] | None, level: Level = Level.SEQUENCE) -> Expectation:
    """Two completions of three tokens; all ratios of the first are at the upper bound, the second is inside."""
    log_ratio = float(FLOAT64.round(HIGH))
    log_ratios = np.array([[log_ratio] * 3, [0.1] * 3])
    advantages = np.array([1.0, 0.5]) if per_token is None else np.array([per_token, [0.5] * 3])
    batch = Batch(FLOAT64, log_ratios - 2.0, np.full((2, 3), -2.0), None, advantages, np.ones((2, 3), dtype=bool))
    # The differences of the stored numbers, not of those meant, must lie at the bound.
    batch = replace(batch, old_logps=batch.logps - log_ratios)
    return expect(Case(batch, LossSpec(LossType.GRPO, level, epsilon_low=0.25, epsilon_high=0.25)))


def test_one_decision_of_a_completion_has_no_hull() -> None:
    """With one advantage for the completion, its tokens are decided together: four outcomes, no hull."""
    found = at_the_bound(None)
    assert found.undecided
    assert found.hull is None
    policy = -1.25 / 6
    values = {round(float(exact.high[0, 0]) / policy, 9) for exact in found.gradients}
    assert values == {0.0, 0.5, 0.75, 1.0}


def test_advantages_per_token_are_decided_apart() -> None:
    """With advantages that differ, every token's tie may round its own way: the element lies in a hull."""
    found = at_the_bound([1.0, 2.0, -0.5])
    assert found.hull is not None
    least, greatest = found.hull
    # Each of the three terms may count from nothing to all.
    assert least[0] == pytest.approx(-1.25 * 3.0 / 18)
    assert greatest[0] == pytest.approx(1.25 * 0.5 / 18)
    assert np.isnan(least[1]).all()
    assert np.isnan(greatest[1]).all()


def test_equal_advantages_per_token_are_one_decision() -> None:
    """Equal numbers are rounded alike, so that equal advantages make one decision again."""
    assert at_the_bound([1.0, 1.0, 1.0]).hull is None


def test_tokens_are_decided_apart_at_token_level() -> None:
    """At token level each element has one decision of its own and no hull."""
    found = at_the_bound([1.0, 2.0, -0.5], Level.TOKEN)
    assert found.undecided
    assert found.hull is None


@pytest.mark.parametrize("level", Level)
def test_cispo_decides_nothing(level: Level) -> None:
    """The cap of cispo is detached: at it the value has a kink and the gradient one answer."""
    case = one_token(FLOAT32, float(FLOAT32.round(HIGH)), 1.0)
    spec = LossSpec(LossType.CISPO, level, epsilon_high=1.25)
    expectation = expect(replace(case, spec=spec))
    assert not expectation.undecided
    assert expectation.gradients[0].high[0, 0] == pytest.approx(-1.25)


@pytest.mark.parametrize("level", Level)
def test_undecided_tokens_leave_the_others_alone(level: Level) -> None:
    """An element that no decision enters is the same in every outcome."""
    found = at_the_bound([1.0, 2.0, -0.5], level)
    values = np.array([exact.high[1] for exact in found.gradients])
    bounds = np.array([exact.bound[1] for exact in found.gradients])
    assert (values == values[0]).all()
    assert (bounds == bounds[0]).all()
    assert (values != 0.0).all()
