"""What the KL term is under its estimators, bounds and aggregations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
from exact_answers import Answer, answer, case_of, different, dyadic_batches, same, same_answers, same_gradients
from flint import arb

from cases.batch import Batch
from cases.conventions import Conventions, KLAggregation, KLBounded, WindowTokens
from cases.spec import KLEstimator, Level, LossType
from cases.split import Split

WINDOW: Final = (LossType.DAPO, LossType.CISPO, LossType.VESPO)
TOKEN_MEANS: Final = (LossType.BNPO, *WINDOW)
APART: Final = Conventions(kl_aggregation=KLAggregation.TOKEN_MEAN)

every_loss = pytest.mark.parametrize("loss_type", LossType)
every_level = pytest.mark.parametrize("level", Level)
every_estimator = pytest.mark.parametrize("estimator", KLEstimator)


def of_kl(batch: Batch, estimator: KLEstimator, **conventions: Any) -> Answer:
    """The KL term alone, of beta 1: a mean over tokens."""
    neutral = replace(batch, advantages=np.zeros(batch.rows))
    options = {"kl_estimator": estimator, "conventions": Conventions(**conventions)}
    return answer(case_of(neutral, LossType.BNPO, Level.TOKEN, beta=1.0, **options))


def reference_log_ratios(batch: Batch) -> Iterator[tuple[tuple[int, int], arb]]:
    """x of every unmasked token."""
    assert batch.ref_logps is not None
    for row, column in np.argwhere(batch.mask).tolist():
        yield (row, column), arb(float(batch.ref_logps[row, column])) - arb(float(batch.logps[row, column]))


def test_estimators_by_hand() -> None:
    """k1 is -x with gradient 1 whatever x is; k2 is x^2 / 2 with gradient -x; k3 is neither."""
    for batch in dyadic_batches():
        k1, k2, k3 = (of_kl(batch, one) for one in (KLEstimator.K1, KLEstimator.K2, KLEstimator.K3))
        places = dict(reference_log_ratios(batch))
        assert same(k1.loss * batch.tokens, -sum(places.values(), arb(0)))
        assert same(k2.loss * batch.tokens, sum((x * x / 2 for x in places.values()), arb(0)))
        for at, x in places.items():
            assert same(k1.gradient[at] * batch.tokens, arb(1))
            assert same(k2.gradient[at] * batch.tokens, -x)
        assert not same_gradients(k3, k1)
        assert not same_gradients(k3, k2)


def test_k2_is_bias_corrected_k3_on_policy() -> None:
    """At ratio 1 both have the gradient u; off-policy they part."""
    parted = 0
    for batch in dyadic_batches(on_policy=True):
        k2, corrected = (of_kl(batch, one) for one in (KLEstimator.K2, KLEstimator.K3_BIAS_CORRECTED))
        assert same_gradients(k2, corrected)
        assert different(k2.loss, corrected.loss)
    for batch in dyadic_batches():
        k2, corrected = (of_kl(batch, one) for one in (KLEstimator.K2, KLEstimator.K3_BIAS_CORRECTED))
        parted += not same_gradients(k2, corrected)
    assert parted == 25


@every_estimator
def test_reference_equal_to_current(estimator: KLEstimator) -> None:
    """No estimate has a value there; only k1 has a gradient, 1."""
    for batch in dyadic_batches():
        found = of_kl(replace(batch, ref_logps=batch.logps), estimator)
        assert same(found.loss, arb(0))
        slope = arb(1) / batch.tokens if estimator is KLEstimator.K1 else arb(0)
        assert all(same(one, slope) for one in found.gradient.values())


@every_estimator
def test_kl_log_ratio_beyond_its_bound(estimator: KLEstimator) -> None:
    """The estimate is that of the nearest x inside; of its gradient only what passes the ratio is left."""
    beyond = 0
    for batch in dyadic_batches():
        assert batch.ref_logps is not None
        x = batch.ref_logps - batch.logps
        held = np.clip(x, -0.25, 0.25)
        moved = of_kl(replace(batch, ref_logps=batch.logps + held), estimator)
        found = of_kl(batch, estimator, kl_log_ratio_bound=0.25)
        assert same(found.loss, moved.loss)
        for at, slope in found.gradient.items():
            if held[at] == x[at]:
                assert same(slope, moved.gradient[at])
                continue
            beyond += 1
            through = arb(0)
            if estimator is KLEstimator.K3_BIAS_CORRECTED:
                end, ratio = arb(float(held[at])), arb(float(batch.log_ratios[at])).exp()
                through = ratio * (end.exp() - end - 1) / batch.tokens
            assert same(slope, through)
    assert beyond > 50


@every_estimator
def test_kl_estimate_beyond_its_bound(estimator: KLEstimator) -> None:
    """Of b or more it counts b, of -b or less -b, without a gradient; the ratio that corrects bias is in it."""
    beyond = moved = 0
    for batch in dyadic_batches():
        loss = arb(0)
        free, found = of_kl(batch, estimator), of_kl(batch, estimator, kl_bound=0.125)
        for at, x in reference_log_ratios(batch):
            k3 = x.exp() - x - 1
            corrected = arb(float(batch.log_ratios[at])).exp() * k3
            values = {KLEstimator.K1: -x, KLEstimator.K2: x * x / 2, KLEstimator.K3: k3}
            value = values.get(estimator, corrected)
            if abs(value) < 0.125:
                assert same(found.gradient[at], free.gradient[at])
                loss += value
                continue
            beyond += 1
            moved += estimator is KLEstimator.K3_BIAS_CORRECTED and bool(k3 < 0.125)
            loss += arb(0.125) if value > 0 else arb(-0.125)
            assert found.gradient[at] == 0
        assert same(found.loss * batch.tokens, loss)
    assert beyond > 30
    assert moved > 3 or estimator is not KLEstimator.K3_BIAS_CORRECTED


@every_estimator
@pytest.mark.parametrize("bound", ["kl_log_ratio_bound", "kl_bound"])
def test_bounds_that_guard_an_exponential(bound: str, estimator: KLEstimator) -> None:
    """Either bound may be of k3 alone: then k1 and k2 do not know it, and k3 knows no difference."""
    acted = 0
    for batch in dyadic_batches():
        free, every, exponential = (
            of_kl(batch, estimator, **conventions)
            for conventions in ({}, {bound: 0.125}, {bound: 0.125, "kl_bounded": KLBounded.EXPONENTIAL})
        )
        polynomial = estimator in (KLEstimator.K1, KLEstimator.K2)
        assert same_answers(exponential, free if polynomial else every)
        acted += not same_answers(every, free)
    assert acted > 20


@every_estimator
@every_level
@every_loss
def test_mean_of_kl_by_itself(loss_type: LossType, level: Level, estimator: KLEstimator) -> None:
    """It is the KL term that bnpo has inside: for token means the same loss, for others another."""
    parted = 0
    for batch in dyadic_batches(12):
        apart, inside, without = (
            answer(case_of(batch, loss_type, level, beta, kl_estimator=estimator, conventions=conventions))
            for beta, conventions in ((0.5, APART), (0.5, Conventions()), (0.0, Conventions()))
        )
        with_kl, bare = (
            answer(case_of(batch, LossType.BNPO, level, beta, kl_estimator=estimator)) for beta in (0.5, 0.0)
        )
        assert same(apart.loss - without.loss, with_kl.loss - bare.loss)
        for at, slope in apart.gradient.items():
            assert same(slope - without.gradient[at], with_kl.gradient[at] - bare.gradient[at])
        if loss_type in TOKEN_MEANS:
            assert same_answers(apart, inside)
        else:
            parted += not same_answers(apart, inside)
    assert loss_type in TOKEN_MEANS or parted >= 10


@pytest.mark.parametrize("window", WindowTokens)
@every_loss
def test_mean_of_kl_is_over_the_step(loss_type: LossType, window: WindowTokens) -> None:
    """Split, the mean runs over the tokens of the step alone, whatever dapo, cispo and vespo divide by."""
    split = Split(ranks=2, accumulation_steps=2, steps_per_generation=4)
    uneven = 0
    for batch in dyadic_batches(6, lengths=(5, 1, 2, 4, 3, 2, 1, 6)):
        step = [0, 1, 4, 5]
        whole = batch.take(rows=step)
        expected, bare = (answer(case_of(whole, LossType.DAPO, Level.TOKEN, beta)) for beta in (0.5, 0.0))
        conventions = Conventions(kl_aggregation=KLAggregation.TOKEN_MEAN, window_tokens=window)
        apart, without = (
            answer(replace(case_of(batch, loss_type, Level.TOKEN, beta, conventions=conventions), split=split))
            for beta in (0.5, 0.0)
        )
        assert same(apart.loss - without.loss, expected.loss - bare.loss)
        for (row, column), slope in apart.gradient.items():
            at = step.index(row), column
            assert same(slope - without.gradient[row, column], expected.gradient[at] - bare.gradient[at])
        inside = answer(replace(case_of(batch, loss_type, Level.TOKEN), split=split))
        uneven += not same_answers(apart, inside)
    exact = window is WindowTokens.EXACT and loss_type in WINDOW
    assert uneven == (0 if exact else 6)
