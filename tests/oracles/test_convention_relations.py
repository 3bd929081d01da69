"""What each convention changes in the exact answer, what it leaves alone, and where two are one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest
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
from flint import arb

from cases.batch import Batch
from cases.case import Case
from cases.conventions import CispoClip, Conventions, SequenceGradient
from cases.spec import KLEstimator, Level, LossType

CLIPPED: Final = tuple(loss_type for loss_type in LossType if loss_type.clips)
THROUGH_RATIO: Final = (*CLIPPED, LossType.SAPO)
"""Losses whose gradient passes the ratio of the level."""

TOKEN_MEANS: Final = (LossType.BNPO, LossType.DAPO, LossType.CISPO, LossType.VESPO)
RATIO_HIGH: Final = 1.25

every_loss = pytest.mark.parametrize("loss_type", LossType)
every_clipped = pytest.mark.parametrize("loss_type", CLIPPED)
every_level = pytest.mark.parametrize("level", Level)


def under(case: Case, **conventions: Any) -> Answer:
    """The answer to a case under other conventions."""
    return answer(replace(case, spec=replace(case.spec, conventions=Conventions(**conventions))))


def with_token_advantages(batch: Batch) -> Batch:
    """The batch with advantages that differ within every completion of several tokens."""
    signs = np.where(np.arange(batch.columns) % 2, 0.5, 1.0)
    return replace(batch, advantages=np.outer(batch.advantages, signs))


@every_level
@every_clipped
def test_dual_clip_is_two_sided_clip(loss_type: LossType, level: Level) -> None:
    """A dual clip c of at least 1 + epsilon_high is the two-sided clip delta = c; below it the two differ."""
    acted = parted = 0
    for batch in dyadic_batches(spread=2.5):
        case = case_of(batch, loss_type, level)
        for bound in (RATIO_HIGH, 1.5, 3.0, 1.125):
            dual = under(case, dual_clip=bound)
            two_sided = answer(replace(case, spec=replace(case.spec, delta=bound)))
            if bound >= RATIO_HIGH:
                assert same_answers(dual, two_sided)
                acted += not same_answers(dual, answer(case))
            else:
                parted += not same_answers(dual, two_sided)
    assert min(acted, parted) > 10


@every_level
@every_clipped
def test_dual_clip_spares_good_tokens(loss_type: LossType, level: Level) -> None:
    """Tokens with an advantage above 0 have no second bound, and one that was reached passes no gradient."""
    reached = 0
    for batch in dyadic_batches(spread=2.5):
        plain = case_of(batch, loss_type, level, beta=0.0)
        free, bound = answer(plain), under(plain, dual_clip=1.5)
        for (row, column), slope in bound.gradient.items():
            spared = batch.advantages[row] > 0 or same(slope, free.gradient[row, column])
            assert same(slope, free.gradient[row, column]) if spared else slope == 0
            reached += not spared
        assert bound.loss < free.loss or same(bound.loss, free.loss)
    assert reached > 10


@every_level
@every_loss
def test_bounds_beyond_all_numbers(loss_type: LossType, level: Level) -> None:
    """A bound that no number reaches changes nothing; the same bound drawn near does."""
    beyond_and_near: tuple[tuple[str, Any, Any], ...] = (
        ("log_ratio_bounds", (-50.0, 50.0), (-0.0625, 0.0625)),
        ("log_ratio_bounds", (-50.0, None), (-0.0625, None)),
        ("log_ratio_bounds", (None, 50.0), (None, 0.0625)),
        ("kl_log_ratio_bound", 50.0, 0.25),
        ("kl_bound", 50.0, 0.0625),
        ("dual_clip", 50.0, 1.0625),
    )
    for name, beyond, near in beyond_and_near:
        changed = 0
        for batch in dyadic_batches(10):
            # Through the KL term the ratio of vespo shows too.
            estimator = KLEstimator.K3_BIAS_CORRECTED
            case = case_of(batch, loss_type, level, kl_estimator=estimator)
            plain = answer(case)
            assert same_answers(under(case, **{name: beyond}), plain)
            changed += not same_answers(under(case, **{name: near}), plain)
        assert changed >= 3 if name != "dual_clip" or loss_type.clips else changed == 0


@pytest.mark.parametrize("loss_type", [one for one in LossType if one is not LossType.VESPO])
def test_log_ratio_beyond_its_bounds(loss_type: LossType) -> None:
    """The answer is that of the nearest log-ratio inside, without a gradient; vespo has clips of its own."""
    beyond = 0
    for batch in dyadic_batches():
        case = case_of(batch, loss_type, Level.TOKEN, beta=0.0)
        held = np.clip(batch.log_ratios, -0.125, 0.1875)
        nearest = replace(batch, old_logps=batch.logps - held)
        found = under(case, log_ratio_bounds=(-0.125, 0.1875))
        moved = answer(case_of(nearest, loss_type, Level.TOKEN, beta=0.0))
        assert same(found.loss, moved.loss)
        for at, slope in found.gradient.items():
            inside = held[at] == batch.log_ratios[at] or loss_type is LossType.CISPO
            assert same(slope, moved.gradient[at]) if inside else slope == 0
            beyond += not inside
    assert beyond > 50 or loss_type is LossType.CISPO


@every_level
@every_loss
def test_gspo_token_has_the_value_of_gspo(loss_type: LossType, level: Level) -> None:
    """Which way the gradient takes changes no value; without per-token factors it changes no gradient either."""
    for batch in dyadic_batches():
        for advantages in (batch, with_token_advantages(batch)):
            case = case_of(advantages, loss_type, level)
            ours, theirs = answer(case), under(case, sequence_gradient=SequenceGradient.TOKEN)
            assert same(ours.loss, theirs.loss)
            if advantages is batch:
                assert same_gradients(ours, theirs)


@every_loss
def test_gspo_token_credits_tokens(loss_type: LossType) -> None:
    """Where advantages or importance ratios differ within a completion, it has other gradients of the same sum."""
    parted = 0
    for batch in dyadic_batches():
        rho = dyadic(np.random.default_rng(batch.tokens).uniform(0.5, 2.0, batch.mask.shape))
        for factors in (with_token_advantages(batch), replace(batch, importance_ratio=rho)):
            case = case_of(factors, loss_type, Level.SEQUENCE, beta=0.0)
            ours, theirs = answer(case), under(case, sequence_gradient=SequenceGradient.TOKEN)
            assert same(ours.loss, theirs.loss)
            if loss_type not in THROUGH_RATIO:
                assert same_gradients(ours, theirs)
                continue
            for row in range(batch.rows):
                whole, by_token = (
                    [slope for at, slope in found.gradient.items() if at[0] == row] for found in (ours, theirs)
                )
                assert same(sum(whole, arb(0)), sum(by_token, arb(0)))
                parted += any(different(*pair) for pair in zip(whole, by_token, strict=True))
    assert parted > 50 or loss_type not in THROUGH_RATIO


@every_loss
def test_gspo_token_credits_kl(loss_type: LossType) -> None:
    """A bias-corrected KL term differs from token to token, so that its gradient takes the way of the ratio."""
    parted = 0
    for batch in dyadic_batches():
        case = case_of(batch, loss_type, Level.SEQUENCE, kl_estimator=KLEstimator.K3_BIAS_CORRECTED)
        ours, theirs = answer(case), under(case, sequence_gradient=SequenceGradient.TOKEN)
        assert same(ours.loss, theirs.loss)
        parted += not same_gradients(ours, theirs)
    assert parted > 20


@every_level
@every_loss
def test_denominator_epsilon(loss_type: LossType, level: Level) -> None:
    """n + e in place of n, and N + e in place of N; losses that divide by neither do not know it."""
    changed = 0
    for batch in dyadic_batches(12, lengths=(3, 3, 3, 3)):
        case = case_of(batch, loss_type, level)
        plain, more = answer(case), under(case, denominator_epsilon=0.5)
        if loss_type in (LossType.DR_GRPO, LossType.LUSPO):
            assert same_answers(more, plain)
        elif loss_type is LossType.GMPO:
            # The exponent has it too.
            assert not any(same_answers(more, plain, arb(3) / arb(factor)) for factor in (3.0, 3.5))
        else:
            tokens = 12 if loss_type in TOKEN_MEANS else 3
            assert same_answers(more, plain, arb(tokens) / (arb(tokens) + 0.5))
            changed += not same_answers(more, plain)
    assert changed == 12 or loss_type in (LossType.DR_GRPO, LossType.LUSPO, LossType.GMPO)


def unclipped(batch: Batch, level: Level) -> dict[tuple[int, int], arb]:
    """The gradient of the surrogate without any bound, as dapo weighs it."""
    bounds = {"epsilon_low": 1.0 - 2.0**-50, "epsilon_high": 2.0**50}
    return answer(case_of(batch, LossType.DAPO, level, beta=0.0, **bounds)).gradient


@every_level
@pytest.mark.parametrize("clip", CispoClip)
def test_cispo_without_bounds(level: Level, clip: CispoClip) -> None:
    """With its bounds beyond all ratios cispo has the gradient of the unclipped surrogate, and another value."""
    conventions = Conventions(cispo_clip=clip)
    parted = 0
    for batch in dyadic_batches():
        options = {"epsilon_low": 1.0 - 2.0**-50, "epsilon_high": 2.0**50, "conventions": conventions}
        found = answer(case_of(batch, LossType.CISPO, level, beta=0.0, **options))
        expected = unclipped(batch, level)
        assert same_gradients(found, Answer(found.loss, expected))
        near = answer(case_of(batch, LossType.CISPO, level, beta=0.0, conventions=conventions))
        parted += not same_gradients(near, found)
    assert parted > 15


@every_level
def test_cispo_two_sided(level: Level) -> None:
    """Below the lower bound the weight is that bound; elsewhere the lower bound is not felt."""
    raised = 0
    for batch in dyadic_batches():
        case = case_of(batch, LossType.CISPO, level, beta=0.0)
        capped, held = answer(case), under(case, cispo_clip=CispoClip.TWO_SIDED)
        free = unclipped(batch, level)
        for at, slope in held.gradient.items():
            # Of a surrogate -w A r: the ratio of the token.
            unit = arb(float(batch.advantages[at[0]])) / batch.tokens
            below = -free[at] / unit < 0.75
            assert same(slope, -unit * 0.75 if below else capped.gradient[at])
            raised += bool(below) and different(slope, capped.gradient[at])
        if all(same(slope, capped.gradient[at]) for at, slope in held.gradient.items()):
            assert same(held.loss, capped.loss)
    assert raised > 20
