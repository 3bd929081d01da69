"""What the options of a loss change in the exact answer, and what they leave alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from closed_forms_weights import drops, token_weights
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
from cases.spec import KLEstimator, Level, LossType

CLIPPED: Final = tuple(loss_type for loss_type in LossType if loss_type.clips)
RATIO_HIGH: Final = 1.25

every_loss = pytest.mark.parametrize("loss_type", LossType)
every_clipped = pytest.mark.parametrize("loss_type", CLIPPED)
every_level = pytest.mark.parametrize("level", Level)


def weighed(case: Case, row: int) -> arb:
    """What a token of a completion weighs."""
    weight = token_weights(case)[row]
    return arb(fmpq(weight.numerator, weight.denominator))


def combined(ours: Answer, theirs: Answer, factor: float) -> Answer:
    """`factor` times the difference, added to theirs."""
    return Answer(
        theirs.loss + (ours.loss - theirs.loss) * factor,
        {at: slope + (ours.gradient[at] - slope) * factor for at, slope in theirs.gradient.items()},
    )


def sampled(spread: float = 1.0) -> Iterator[Batch]:
    """Batches with log-probabilities of a sampler."""
    for batch in dyadic_batches():
        noise = np.random.default_rng(batch.tokens).uniform(-spread, spread, batch.mask.shape)
        yield replace(batch, sampling_logps=batch.logps + dyadic(noise))


@every_level
@every_clipped
def test_delta_beyond_every_ratio(loss_type: LossType, level: Level) -> None:
    """A second bound that no ratio reaches has no effect."""
    for batch in dyadic_batches():
        largest = float(np.exp(batch.log_ratios[batch.mask].max())) + 0.01
        without = answer(case_of(batch, loss_type, level))
        for delta in (max(largest, RATIO_HIGH), 50.0):
            assert same_answers(answer(case_of(batch, loss_type, level, delta=delta)), without)


@every_level
@every_clipped
def test_delta_at_the_first_bound(loss_type: LossType, level: Level) -> None:
    """delta = 1 + epsilon_high bounds bad tokens as it bounds good ones, and no gradient passes beyond."""
    acted = 0
    for batch in dyadic_batches(spread=2.0):
        case = case_of(batch, loss_type, level, beta=0.0, delta=RATIO_HIGH)
        loss, shift = arb(0), np.zeros(batch.mask.shape)
        ratios = batch.log_ratios
        for row in range(batch.rows):
            unmasked = batch.mask[row]
            mean = np.full(batch.columns, ratios[row][unmasked].sum() / unmasked.sum())
            shift[row] = ratios[row] if level is Level.TOKEN else mean
            for log_ratio in shift[row][unmasked]:
                ratio, advantage = arb(float(log_ratio)).exp(), float(batch.advantages[row])
                bounded = arb(RATIO_HIGH) if ratio > RATIO_HIGH else ratio
                bounded = arb(0.75) if advantage < 0 and bounded < 0.75 else bounded
                loss -= weighed(case, row) * bounded * advantage
        found = answer(case)
        # The mean of a completion is rounded where it is taken here.
        assert abs(found.loss - loss) < 2.0**-48
        beyond = (np.exp(shift) > RATIO_HIGH) & batch.mask
        assert all(found.gradient[row, column] == 0 for row, column in np.argwhere(beyond).tolist())
        acted += int((beyond & (batch.advantages < 0)[:, None]).sum())
    assert acted > 10


@every_level
@every_clipped
def test_delta_below_the_first_bound(loss_type: LossType, level: Level) -> None:
    """It takes the first bound's place for good tokens, and leaves bad ones bounded by the first."""
    changed = 0
    for batch in dyadic_batches(spread=2.0):
        below, at = (answer(case_of(batch, loss_type, level, beta=0.0, delta=d)) for d in (1.125, RATIO_HIGH))
        narrow = answer(case_of(batch, loss_type, level, beta=0.0, epsilon_high=0.125))
        good = {position for position in at.gradient if batch.advantages[position[0]] > 0}
        for position, slope in below.gradient.items():
            assert same(slope, (narrow if position in good else at).gradient[position])
        changed += not same_gradients(below, at)
    assert changed > 0


@every_level
@every_loss
def test_bias_correction_at_ratio_one(loss_type: LossType, level: Level) -> None:
    """The value stays; at token level the slope of the KL term becomes u where it was 1 - e^-u."""
    for batch in dyadic_batches(on_policy=True):
        plain = case_of(batch, loss_type, level)
        corrected = replace(plain, spec=replace(plain.spec, kl_estimator=KLEstimator.K3_BIAS_CORRECTED))
        ours, theirs = answer(corrected), answer(plain)
        assert same(ours.loss, theirs.loss)
        for (row, column), slope in ours.gradient.items():
            u = arb(float(batch.logps[row, column])) - arb(float(batch.ref_logps[row, column]))
            changed = weighed(plain, row) * (u - 1 + (-u).exp()) / 2
            if level is Level.TOKEN:
                assert same(slope - theirs.gradient[row, column], changed)
        # At sequence level the change is spread over the completion: it adds up to the same.
        for row in range(batch.rows):
            k3 = [
                (-u).exp() + u - 1
                for column in np.flatnonzero(batch.mask[row]).tolist()
                for u in [arb(float(batch.logps[row, column])) - arb(float(batch.ref_logps[row, column]))]
            ]
            moved = [ours.gradient[at] - theirs.gradient[at] for at in ours.gradient if at[0] == row]
            assert same(sum(moved, arb(0)), weighed(plain, row) * sum(k3, arb(0)) / 2)


@every_level
@every_loss
def test_off_policy_mask_without_effect(loss_type: LossType, level: Level) -> None:
    """A threshold beyond every drift, or advantages of at least 0, make no difference."""
    for batch in sampled():
        without = answer(case_of(batch, loss_type, level))
        assert same_answers(answer(case_of(batch, loss_type, level, off_policy_mask_threshold=100.0)), without)
        good = replace(batch, advantages=np.abs(batch.advantages))
        masked = answer(case_of(good, loss_type, level, off_policy_mask_threshold=-100.0))
        assert same_answers(masked, answer(case_of(good, loss_type, level)))


@every_level
@every_loss
def test_off_policy_mask_drops_the_policy_term(loss_type: LossType, level: Level) -> None:
    """A dropped completion has the answer of advantages 0: its KL term stays, and it counts in every divisor."""
    dropped = kept = 0
    for batch in sampled():
        case = case_of(batch, loss_type, level, off_policy_mask_threshold=0.0625)
        gone = np.array([drops(case, row) for row in range(batch.rows)]) & (batch.advantages < 0)
        neutral = replace(batch, advantages=np.where(gone, 0.0, batch.advantages))
        assert same_answers(answer(case), answer(case_of(neutral, loss_type, level)))
        dropped += int(gone.sum())
        kept += int((~gone & (batch.advantages < 0)).sum())
    assert min(dropped, kept) > 5


@every_level
@every_loss
def test_importance_ratio_scales_the_policy_term(loss_type: LossType, level: Level) -> None:
    """A ratio of 1 has no effect, a ratio of c scales loss and gradient without KL by c; vespo has it inside."""
    for batch in dyadic_batches(10):
        plain, neutral = (answer(case_of(batch, loss_type, level, beta)) for beta in (0.5, 0.0))
        kl = Answer(plain.loss - neutral.loss, {at: s - neutral.gradient[at] for at, s in plain.gradient.items()})
        for factor in (1.0, 0.0, 0.25, 3.0):
            for columns in (1, batch.columns):
                rho = np.full((batch.rows, columns), factor)
                found = answer(case_of(replace(batch, importance_ratio=rho), loss_type, level))
                expected = combined(plain, kl, factor)
                assert same_answers(found, expected) == (loss_type is not LossType.VESPO or factor == 1.0)


@every_level
@every_loss
def test_importance_ratio_of_two_forms(loss_type: LossType, level: Level) -> None:
    """One ratio a completion is that ratio at each of its tokens."""
    for batch in dyadic_batches():
        rho = dyadic(np.random.default_rng(batch.tokens).uniform(0.0, 2.0, (batch.rows, 1)))
        spread = np.broadcast_to(rho, batch.mask.shape)
        ours, theirs = (
            answer(case_of(replace(batch, importance_ratio=form), loss_type, level)) for form in (rho, spread)
        )
        assert same_answers(ours, theirs)


@every_level
def test_constant_divisor_row_sums_and_token_mean(level: Level) -> None:
    """L_max dr_grpo = luspo = N / B bnpo, with any KL term and importance ratio."""
    for batch in dyadic_batches():
        rho = dyadic(np.random.default_rng(batch.tokens).uniform(0.0, 2.0, batch.mask.shape))
        for weighted in (batch, replace(batch, importance_ratio=rho)):
            for beta in (0.0, 0.5):
                dr_grpo, luspo, bnpo = (
                    answer(case_of(weighted, loss_type, level, beta))
                    for loss_type in (LossType.DR_GRPO, LossType.LUSPO, LossType.BNPO)
                )
                assert same_answers(luspo, dr_grpo, 11)
                assert same_answers(luspo, bnpo, arb(batch.tokens) / batch.rows)
                assert different(luspo.loss, dr_grpo.loss)
