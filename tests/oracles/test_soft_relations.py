"""sapo and vespo, which clip nothing: what their gates are at a ratio of 1, far from it, and in their limits."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from closed_forms_weights import token_weights
from exact_answers import (
    Answer,
    answer,
    case_of,
    different,
    dyadic,
    dyadic_batches,
    same,
    same_answers,
    same_gradients,
)
from flint import arb, fmpq

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FLOAT64
from cases.spec import KLEstimator, Level, LossType

TEMPERATURES: Final = {"sapo_temperature_pos": 0.75, "sapo_temperature_neg": 1.5}
SHAPES: Final = {"vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0}

every_level = pytest.mark.parametrize("level", Level)


def weighed(case: Case, row: int) -> arb:
    """What a token of a completion weighs."""
    weight = token_weights(case)[row]
    return arb(fmpq(weight.numerator, weight.denominator))


def policy_gradient(case: Case) -> dict[tuple[int, int], arb]:
    """-w A of every unmasked token."""
    return {
        (row, column): -weighed(case, row) * float(case.batch.advantages[row])
        for row, column in np.argwhere(case.batch.mask).tolist()
    }


def one_completion(*log_ratios: float, advantage: float = 1.0) -> Batch:
    """One completion with these log-ratios; a vespo gradient of it is -A phi / n."""
    ratios = np.array([log_ratios])
    old_logps = np.minimum(-ratios, 0.0) - 1.0
    return Batch(FLOAT64, old_logps + ratios, old_logps, None, np.array([advantage]), ratios == ratios)


def gamma(batch: Batch, **options: Any) -> arb:
    """phi of a completion, read off its gradient."""
    slopes = answer(case_of(batch, LossType.VESPO, Level.TOKEN, beta=0.0, **options)).gradient
    assert all(same(slope, slopes[0, 0]) for slope in slopes.values())
    return -slopes[0, 0] * batch.tokens / float(batch.advantages[0])


@every_level
@pytest.mark.parametrize("implicit", [False, True])
def test_sapo_at_ratio_one(level: Level, implicit: bool) -> None:
    """The value is -2 A / tau, whatever the temperature is the gradient is -A."""
    for batch in dyadic_batches():
        current = replace(batch, old_logps=None if implicit else batch.logps)
        case = case_of(current, LossType.SAPO, level, beta=0.0, **TEMPERATURES)
        found, expected = answer(case), policy_gradient(case)
        assert same_gradients(found, Answer(found.loss, expected))
        temperature = {at: 0.75 if batch.advantages[at[0]] > 0 else 1.5 for at in expected}
        assert same(found.loss, sum((2 * slope / temperature[at] for at, slope in expected.items()), arb(0)))


@every_level
def test_sapo_tends_to_the_unclipped_surrogate(level: Level) -> None:
    """As the temperature falls the gradient tends to -A r, the faster the smaller it is: the error is tau^2."""
    for batch in dyadic_batches(5):
        bounds = {"epsilon_low": 1.0 - 2.0**-50, "epsilon_high": 2.0**50}
        unclipped = answer(case_of(batch, LossType.GRPO, level, beta=0.0, **bounds)).gradient
        errors = []
        for tau in (0.25, 0.25 / 16, 0.25 / 256):
            temperatures = {"sapo_temperature_pos": tau, "sapo_temperature_neg": tau}
            found = answer(case_of(batch, LossType.SAPO, level, beta=0.0, **temperatures)).gradient
            errors.append(max(abs(float(slope - unclipped[at])) for at, slope in found.items()))
        assert errors[0] < 0.1
        for coarse, fine in pairwise(errors):
            assert fine == pytest.approx(coarse / 256, rel=0.1)


@every_level
def test_sapo_closes_as_the_temperature_rises(level: Level) -> None:
    """At a high temperature only ratios near 1 have a gradient, which stays -A."""
    steep = {"sapo_temperature_pos": 4096.0, "sapo_temperature_neg": 4096.0}
    for advantage in (1.0, -1.0):
        at_one = answer(case_of(one_completion(0.0, advantage=advantage), LossType.SAPO, level, 0.0, **steep))
        assert same(at_one.gradient[0, 0], arb(-advantage))
        for log_ratio in (-0.25, 0.25):
            batch = one_completion(log_ratio, advantage=advantage)
            away = answer(case_of(batch, LossType.SAPO, level, 0.0, **steep))
            assert same(away.gradient[0, 0], arb(0))
            # The value has reached its end: 0 below, -4 A / tau above.
            assert same(away.loss, arb(-4 * advantage / 4096 if log_ratio > 0 else 0))


@every_level
@pytest.mark.parametrize(
    ("loss_type", "equal", "apart"),
    [
        (LossType.SAPO, {"sapo_temperature_pos": 1.5, "sapo_temperature_neg": 1.5}, TEMPERATURES),
        (LossType.VESPO, {**SHAPES, "vespo_k_neg": 2.0, "vespo_lambda_neg": 3.0}, SHAPES),
    ],
    ids=["sapo", "vespo"],
)
def test_opposite_advantages(
    loss_type: LossType, equal: dict[str, float], apart: dict[str, float], level: Level
) -> None:
    """Both are odd in the advantages if their parameters for good and bad tokens are equal, and only then."""
    for batch in dyadic_batches():
        opposite = replace(batch, advantages=-batch.advantages)
        for options, odd in ((equal, True), (apart, False)):
            ours, theirs = (answer(case_of(one, loss_type, level, 0.0, **options)) for one in (batch, opposite))
            assert same_answers(ours, theirs, -1) == odd


@every_level
@pytest.mark.parametrize("implicit", [False, True])
def test_vespo_at_ratio_one(level: Level, implicit: bool) -> None:
    """phi(1) = 1: the value is -A l, the gradient -A, whatever k and lambda are."""
    for batch in dyadic_batches():
        current = replace(batch, old_logps=None if implicit else batch.logps)
        case = case_of(current, LossType.VESPO, level, beta=0.0, **SHAPES)
        found, expected = answer(case), policy_gradient(case)
        terms = (slope * float(batch.logps[at]) for at, slope in expected.items())
        assert same_answers(found, Answer(sum(terms, arb(0)), expected))


def test_vespo_has_one_level() -> None:
    """Its ratio is always the completion's: only a bias-corrected KL term knows the level."""
    for batch in dyadic_batches():
        for beta, kl_estimator, one in (
            (0.0, KLEstimator.K3, True),
            (0.5, KLEstimator.K3, True),
            (0.5, KLEstimator.K3_BIAS_CORRECTED, False),
        ):
            ours, theirs = (
                answer(case_of(batch, LossType.VESPO, level, beta, kl_estimator=kl_estimator)) for level in Level
            )
            assert same_answers(ours, theirs) == one


@pytest.mark.parametrize(("advantage", "k", "lam"), [(1.0, 2.0, 3.0), (-1.0, 3.0, 2.0), (0.5, 4.0, 1.0)])
def test_vespo_peaks_at_k_over_lambda(advantage: float, k: float, lam: float) -> None:
    """phi grows up to W = k / lambda and falls beyond it, to nothing at either end."""
    sign = "pos" if advantage > 0 else "neg"
    options = {f"vespo_k_{sign}": k, f"vespo_lambda_{sign}": lam}
    peak = math.log(k / lam)
    found = [
        gamma(one_completion(peak + step / 2, 0.0, step / 2, advantage=advantage), **options)
        for step in (-8.0, -1.0, -0.125, 0.0, 0.125, 1.0, 8.0)
    ]
    assert all(bool(below < above) for below, above in pairwise(found[:4]))
    assert all(bool(below < above) for above, below in pairwise(found[3:]))
    assert found[0] < 2.0**-10
    assert found[-1] < 2.0**-100
    assert same(gamma(one_completion(0.0, advantage=advantage), **options), arb(1))


def test_vespo_clips_logarithms() -> None:
    """Every log-ratio is held to +-20 before they are added up, and their sum to ln 1e-8 and 20."""
    assert same(gamma(one_completion(25.0, -25.0)), arb(1))
    assert same(gamma(one_completion(25.0, -24.0)), arb(1))
    assert same(gamma(one_completion(21.0, -19.0)), gamma(one_completion(20.0, -19.0)))
    # Far below, where phi is small: k ln W shows in its logarithm.
    options = {"vespo_k_pos": 1.0, "vespo_lambda_pos": 2.0**-10}
    lowest = gamma(one_completion(-20.0, -20.0), **options)
    assert float(lowest) == pytest.approx(1e-8, rel=1e-2)
    assert lowest.overlaps(gamma(one_completion(-18.5), **options))
    assert lowest < gamma(one_completion(-18.25), **options)
    highest = {"vespo_k_pos": 1.0, "vespo_lambda_pos": 2.0**-30}
    assert gamma(one_completion(19.0, 19.0), **highest).overlaps(gamma(one_completion(20.0), **highest))


def test_vespo_takes_the_product_of_importance_ratios() -> None:
    """Which token has which ratio does not matter; a ratio of 0 counts as 1e-8, and none is above e^20."""

    def weighted(*ratios: float) -> arb:
        return gamma(replace(one_completion(-0.25, 0.5, 0.125), importance_ratio=np.array([ratios])))

    assert same(weighted(0.5, 2.0, 1.0), gamma(one_completion(-0.25, 0.5, 0.125)))
    assert same(weighted(0.5, 1.5, 1.0), weighted(1.0, 0.5, 1.5))
    assert different(weighted(0.5, 1.5, 1.0), weighted(1.0, 1.0, 1.0))
    assert weighted(0.0, 1.0, 1.0).overlaps(weighted(2.0**-40, 1.0, 1.0))
    assert weighted(1e9, 2.0**-28, 1.0).overlaps(weighted(1e12, 2.0**-28, 1.0))
    assert different(weighted(1e8, 2.0**-26, 1.0), weighted(2e8, 2.0**-26, 1.0))


def test_vespo_weighs_every_token_of_a_completion_alike() -> None:
    """Without a KL term the gradient is one number a completion."""
    for batch in dyadic_batches():
        rho = dyadic(np.random.default_rng(batch.tokens).uniform(0.0, 2.0, batch.mask.shape))
        case = case_of(replace(batch, importance_ratio=rho), LossType.VESPO, Level.TOKEN, beta=0.0)
        found = answer(case).gradient
        for (row, _), slope in found.items():
            first = next(other for at, other in found.items() if at[0] == row)
            assert same(slope, first)
