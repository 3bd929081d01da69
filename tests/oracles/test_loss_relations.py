"""How the exact answers of different losses, levels and bounds to one batch hang together."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from closed_forms import LOSSES, weights
from exact_answers import CLIPPED, answer, case_of, different, dyadic, dyadic_batches, same, same_answers
from flint import arb

from cases.batch import Batch
from cases.spec import Level, LossType

every_loss = pytest.mark.parametrize("loss_type", LOSSES)
every_clipped_loss = pytest.mark.parametrize("loss_type", CLIPPED)
every_level = pytest.mark.parametrize("level", Level)

EPSILONS = (1 / 16, 1 / 4, 1 / 2, 63 / 64)
UNBOUNDED = 1 - 2.0**-20
"""Below any ratio of a batch."""


def with_log_ratios(batch: Batch, log_ratios: np.ndarray, advantage: float) -> Batch:
    """The batch with these log-ratios and one advantage for all."""
    return replace(batch, old_logps=batch.logps - dyadic(log_ratios), advantages=np.full(batch.rows, advantage))


def constant_ratios(batch: Batch, seed: int) -> Batch:
    """The batch with one ratio for all tokens of a completion."""
    per_row = np.random.default_rng(seed).uniform(-1.0, 1.0, (batch.rows, 1))
    return replace(batch, old_logps=batch.logps - dyadic(np.broadcast_to(per_row, batch.mask.shape)))


@every_level
def test_equal_lengths(level: Level) -> None:
    """With n tokens in every completion the means agree, and dr_grpo is n / L of them."""
    for batch in dyadic_batches(lengths=(3, 3, 3, 3)):
        grpo = answer(case_of(batch, LossType.GRPO, level))
        for loss_type in (LossType.BNPO, LossType.DAPO):
            assert same_answers(answer(case_of(batch, loss_type, level)), grpo)
        constant = answer(case_of(batch, LossType.DR_GRPO, level, max_completion_length=16))
        assert same_answers(constant, grpo, 3 / 16)


@every_level
def test_ragged_lengths(level: Level) -> None:
    """With different lengths the mean over completions is not the mean over tokens; bnpo and dapo stay one."""
    for batch in dyadic_batches(lengths=(1, 2, 4, 5)):
        bnpo = answer(case_of(batch, LossType.BNPO, level))
        assert different(answer(case_of(batch, LossType.GRPO, level)).loss, bnpo.loss)
        assert same_answers(answer(case_of(batch, LossType.DAPO, level)), bnpo)


def test_completions_of_one_token() -> None:
    """One token a completion: the level makes no difference, nor does the mean."""
    for batch in dyadic_batches(lengths=(1, 1, 1, 1)):
        grpo = answer(case_of(batch, LossType.GRPO, Level.TOKEN))
        for loss_type in (LossType.GRPO, LossType.BNPO, LossType.DAPO):
            for level in Level:
                assert same_answers(answer(case_of(batch, loss_type, level)), grpo)


@every_loss
def test_constant_ratio_inside_a_completion(loss_type: LossType) -> None:
    """The levels agree where all tokens of a completion have one ratio, and seldom elsewhere."""
    agreements = 0
    for seed, batch in enumerate(dyadic_batches()):
        by_token, by_sequence = (answer(case_of(batch, loss_type, level)) for level in Level)
        agreements += same(by_token.loss, by_sequence.loss)
        by_token, by_sequence = (
            answer(case_of(constant_ratios(batch, seed), loss_type, level)) for level in Level
        )
        assert same_answers(by_token, by_sequence)
    assert agreements < 3


@every_loss
def test_advantages_per_token_at_one_ratio(loss_type: LossType) -> None:
    """Credit per token: at sequence level a completion shares it out evenly, so that only the value agrees."""
    for seed, batch in enumerate(dyadic_batches()):
        constant = constant_ratios(batch, seed)
        advantages = np.random.default_rng(seed).integers(-64, 64, batch.mask.shape) / 32.0
        case, other = (
            case_of(replace(constant, advantages=advantages), loss_type, level, beta=0.0) for level in Level
        )
        by_token, by_sequence = answer(case), answer(other)
        assert same(by_token.loss, by_sequence.loss)
        if loss_type is LossType.CISPO:
            assert same_answers(by_token, by_sequence)
            continue
        for row in range(batch.rows):
            credit = [slope for at, slope in by_token.gradient.items() if at[0] == row]
            shared = [slope for at, slope in by_sequence.gradient.items() if at[0] == row]
            even = sum(credit, arb(0)) / len(credit)
            assert all(same(slope, even) for slope in shared)


@every_level
@every_clipped_loss
def test_clipping_is_pessimistic(loss_type: LossType, level: Level) -> None:
    """The loss never falls when the bounds close in, and never lies below the unclipped one."""
    clipped = 0
    for batch in dyadic_batches():
        losses = [
            answer(case_of(batch, loss_type, level, epsilon_low=epsilon, epsilon_high=epsilon)).loss
            for epsilon in EPSILONS
        ]
        free = answer(case_of(batch, loss_type, level, epsilon_low=UNBOUNDED, epsilon_high=1e6)).loss
        for tight, loose in pairwise([*losses, free]):
            assert tight > loose or same(tight, loose)
        clipped += different(losses[0], free)
    assert clipped > 20


@every_level
def test_cispo_is_not_pessimistic(level: Level) -> None:
    """A higher cap may raise the loss of cispo as well as lower it."""
    changes = []
    for batch in dyadic_batches():
        tight, loose = (
            answer(case_of(batch, LossType.CISPO, level, epsilon_high=cap)).loss for cap in (0.75, 1.5)
        )
        changes.append(tight > loose)
    assert 0 < sum(changes) < len(changes)


@every_level
@every_loss
def test_everything_clipped_above(loss_type: LossType, level: Level) -> None:
    """A > 0 beyond the upper bound: no gradient and a loss that does not know logps; cispo keeps pushing."""
    for seed, batch in enumerate(dyadic_batches()):
        random = np.random.default_rng(seed)
        log_ratios = random.uniform(0.5, 1.0, batch.mask.shape)
        clipped = with_log_ratios(batch, log_ratios, 1.5)
        moved = replace(clipped, logps=clipped.logps + dyadic(random.uniform(0.0, 0.5, batch.mask.shape)))
        here, there = (answer(case_of(one, loss_type, level, beta=0.0)) for one in (clipped, moved))
        if loss_type is LossType.CISPO:
            assert all(different(slope, arb(0)) for slope in here.gradient.values())
            assert different(here.loss, there.loss)
        else:
            assert all(slope == 0 for slope in here.gradient.values())
            assert same(here.loss, there.loss)


@every_level
@every_loss
def test_large_ratios_of_bad_tokens(loss_type: LossType, level: Level) -> None:
    """A < 0 beyond the upper bound: every token keeps its gradient."""
    for seed, batch in enumerate(dyadic_batches()):
        log_ratios = np.random.default_rng(seed).uniform(0.5, 3.0, batch.mask.shape)
        found = answer(case_of(with_log_ratios(batch, log_ratios, -1.5), loss_type, level, beta=0.0))
        assert len(found.gradient) == batch.tokens
        assert all(different(slope, arb(0)) for slope in found.gradient.values())


@pytest.mark.parametrize("beta", [0.0, 0.5])
@every_level
def test_constant_divisor_and_token_mean(level: Level, beta: float) -> None:
    """L times dr_grpo is N / B times bnpo, whatever the lengths."""
    for batch in dyadic_batches():
        constant = answer(case_of(batch, LossType.DR_GRPO, level, beta, max_completion_length=16))
        token_mean = answer(case_of(batch, LossType.BNPO, level, beta))
        assert same_answers(constant, token_mean, arb(batch.tokens) / (batch.rows * 16))


@every_level
@every_loss
def test_gradient_is_bounded_where_the_clip_acts(loss_type: LossType, level: Level) -> None:
    """At most w |A| times the bound for A > 0; for A < 0 only cispo has a bound."""
    beyond = 0
    for batch in dyadic_batches():
        case = case_of(batch, loss_type, level, beta=0.0)
        bound = case.spec.ratio_bounds[1]
        for (row, _), slope in answer(case).gradient.items():
            size = float(abs(slope)) / (float(weights(case)[row]) * abs(batch.advantages[row]))
            within = size <= bound * (1 + 1e-12)
            assert within or (batch.advantages[row] < 0 and loss_type is not LossType.CISPO)
            beyond += not within
    assert (beyond == 0) == (loss_type is LossType.CISPO)
