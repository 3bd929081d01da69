"""gmpo, which clips log-ratios token by token before it takes their mean: beside GSPO and GRPO, and by itself."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from closed_forms_weights import token_weights
from exact_answers import Answer, answer, case_of, different, dyadic, dyadic_batches, same, same_answers
from flint import arb, fmpq

from cases.batch import Batch
from cases.case import Case
from cases.spec import KLEstimator, Level, LossType

WIDE: Final[dict[str, Any]] = {"epsilon_low": 1.0 - 2.0**-50, "epsilon_high": 2.0**50}
"""For either loss: beyond all ratios whose logarithm is above -1."""

MATCHED: Final[dict[str, Any]] = {"epsilon_low": -math.log(0.75), "epsilon_high": math.log(1.25)}
"""Bounds of the log-ratio where GRPO's ratio is clipped to [0.75, 1.25], but for a rounding."""

ROUNDED: Final = 2.0**-50

every_level = pytest.mark.parametrize("level", Level)


def gmpo(batch: Batch, beta: float = 0.0, level: Level = Level.TOKEN, **options: Any) -> Answer:
    """The answer of gmpo, whose log-ratio is clipped to [-1/4, 1/4]."""
    return answer(case_of(batch, LossType.GMPO, level, beta, **options))


def weighed(case: Case, row: int) -> arb:
    """What a token of a completion weighs."""
    weight = token_weights(case)[row]
    return arb(fmpq(weight.numerator, weight.denominator))


def clipped(batch: Batch) -> np.ndarray:
    """Where the log-ratio is beyond the bound that the advantage calls for, (B, T)."""
    signs = np.sign(batch.advantages)[:, None]
    return batch.mask & (signs * batch.log_ratios > 0.25)


def with_log_ratios(batch: Batch, log_ratios: np.ndarray, advantage: float) -> Batch:
    """The batch with these log-ratios and one advantage for all."""
    return replace(batch, old_logps=batch.logps - dyadic(log_ratios), advantages=np.full(batch.rows, advantage))


def test_unclipped_gmpo_is_unclipped_gspo() -> None:
    """Without bounds both are the geometric mean of the ratios; with bounds they differ."""
    parted = 0
    for batch in dyadic_batches(spread=0.9):
        free, bound = (
            answer(case_of(batch, LossType.GRPO, Level.SEQUENCE, 0.0, **bounds)) for bounds in (WIDE, {})
        )
        assert same_answers(gmpo(batch, **WIDE), free)
        parted += not same_answers(gmpo(batch), bound)
    assert parted == 25


def test_completions_of_one_token() -> None:
    """A single token is clipped as GRPO clips it if the bounds are its logarithms, and not if they are not."""
    parted = 0
    for batch in dyadic_batches(lengths=(1, 1, 1, 1)):
        grpo = answer(case_of(batch, LossType.GRPO, Level.TOKEN, beta=0.5))
        found = gmpo(batch, 0.5, **MATCHED)
        assert abs(found.loss - grpo.loss) < ROUNDED
        assert all(same(slope, grpo.gradient[at]) for at, slope in found.gradient.items())
        parted += bool(abs(gmpo(batch, 0.5).loss - grpo.loss) > 2.0**-20)
    assert parted > 10


def test_gradient_of_a_completion() -> None:
    """Tokens that are not clipped share one gradient, -w A times the mean; clipped ones have none."""
    several = lost = 0
    for batch in dyadic_batches():
        found, gone = gmpo(batch), clipped(batch)
        case = case_of(batch, LossType.GMPO, Level.TOKEN, beta=0.0)
        held = np.where(gone, np.sign(batch.advantages)[:, None] / 4, batch.log_ratios)
        for row in range(batch.rows):
            unmasked = batch.mask[row]
            mean = (arb(float(held[row][unmasked].sum())) / int(unmasked.sum())).exp()
            expected = -weighed(case, row) * float(batch.advantages[row]) * mean
            for column in np.flatnonzero(unmasked).tolist():
                assert same(found.gradient[row, column], arb(0) if gone[row, column] else expected)
            several += int((unmasked & ~gone[row]).sum() > 1)
            lost += int(gone[row].sum())
    assert min(several, lost) > 20


def test_a_clipped_token_weighs_on_the_others() -> None:
    """Its log-ratio is in the mean at its bound: further out it changes nothing, masked it changes the rest."""
    moved = 0
    for batch in dyadic_batches():
        gone = clipped(batch)
        signs = np.sign(batch.advantages)[:, None]
        further = replace(batch, old_logps=batch.logps - batch.log_ratios - np.where(gone, signs, 0.0))
        assert same_answers(gmpo(further), gmpo(batch))
        mask = batch.mask & ~gone
        masked = gmpo(replace(batch, mask=mask))
        moved += any(different(slope, gmpo(batch).gradient[at]) for at, slope in masked.gradient.items())
    assert moved > 10


def test_opposite_advantages() -> None:
    """With every log-ratio inside its bounds gmpo is odd in the advantages; beyond them it is not."""
    for spread, odd in ((0.125, True), (1.0, False)):
        for batch in dyadic_batches(spread=spread):
            opposite = replace(batch, advantages=-batch.advantages)
            assert same_answers(gmpo(opposite), gmpo(batch), -1) == odd


def test_clipping_is_pessimistic() -> None:
    """The loss never falls when the bounds close in, and never lies below the unclipped one."""
    parted = 0
    for batch in dyadic_batches(spread=0.9):
        near = [gmpo(batch, epsilon_low=one, epsilon_high=one).loss for one in (1 / 16, 1 / 4, 1 / 2)]
        losses = [*near, gmpo(batch, **WIDE).loss]
        for tight, loose in pairwise(losses):
            assert tight > loose or same(tight, loose)
        parted += different(losses[0], losses[-1])
    assert parted > 20


def test_everything_clipped_above() -> None:
    """A > 0 beyond the upper bound: no gradient, and a loss that does not know logps; inside it does."""
    for seed, batch in enumerate(dyadic_batches()):
        random = np.random.default_rng(seed)
        for low, gone in ((0.5, True), (-0.2, False)):
            log_ratios = random.uniform(low, low + 0.1, batch.mask.shape)
            here = with_log_ratios(batch, log_ratios, 1.5)
            there = replace(here, logps=here.logps + dyadic(random.uniform(0.01, 0.2, batch.mask.shape)))
            ours, theirs = gmpo(here), gmpo(there)
            assert same(ours.loss, theirs.loss) == gone
            assert all((slope == 0) == gone for slope in ours.gradient.values())


def test_large_ratios_of_bad_tokens() -> None:
    """A < 0 has no upper bound: every token keeps its gradient; below the lower bound none does."""
    for seed, batch in enumerate(dyadic_batches()):
        far = np.random.default_rng(seed).uniform(0.5, 3.0, batch.mask.shape)
        for log_ratios, kept in ((far, True), (-far, False)):
            found = gmpo(with_log_ratios(batch, log_ratios, -1.5))
            assert len(found.gradient) == batch.tokens
            assert all(different(slope, arb(0)) == kept for slope in found.gradient.values())


@every_level
def test_level_is_of_the_kl_term(level: Level) -> None:
    """Both levels are one loss, but for a bias-corrected KL term."""
    for batch in dyadic_batches():
        token = gmpo(batch, 0.5)
        assert same_answers(gmpo(batch, 0.5, level), token)
        ours, theirs = (
            gmpo(batch, 0.5, one, kl_estimator=KLEstimator.K3_BIAS_CORRECTED) for one in (level, Level.TOKEN)
        )
        assert same_answers(ours, theirs) == (level is Level.TOKEN)


def test_advantages_of_zero() -> None:
    """A token without advantage is in the mean with ratio 1, and has no gradient."""
    for batch in dyadic_batches(lengths=(4, 5, 3, 4)):
        advantages = np.repeat(batch.advantages[:, None], batch.columns, axis=1)
        advantages[:, 0] = 0.0
        per_token = replace(batch, advantages=advantages)
        old = per_token.logps - per_token.log_ratios
        old[:, 0] = per_token.logps[:, 0]
        neutral = gmpo(replace(per_token, old_logps=old))
        found = gmpo(per_token)
        assert same_answers(found, neutral)
        assert all(found.gradient[row, 0] == 0 for row in range(batch.rows))
        assert all(different(slope, arb(0)) for at, slope in found.gradient.items() if not _gone(per_token, at))


def _gone(batch: Batch, at: tuple[int, int]) -> bool:
    advantage = batch.advantages[at]
    return bool(advantage == 0 or np.sign(advantage) * batch.log_ratios[at] > 0.25)
