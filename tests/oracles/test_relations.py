"""What must happen to the exact loss and gradient when a batch is changed: relations within one loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from closed_forms import LOSSES
from closed_forms_weights import token_weights
from exact_answers import (
    Answer,
    answer,
    case_of,
    different,
    dyadic,
    dyadic_batches,
    moved,
    same,
    same_answers,
    same_gradients,
    taking,
    with_garbage,
)
from flint import arb, fmpq

from cases.batch import Batch
from cases.case import Case
from cases.spec import Level, LossType

every_loss = pytest.mark.parametrize("loss_type", [*LOSSES, LossType.GMPO])
every_level = pytest.mark.parametrize("level", Level)


def weighed(case: Case, row: int) -> arb:
    """What a token of a completion weighs."""
    weight = token_weights(case)[row]
    return arb(fmpq(weight.numerator, weight.denominator))


def opposite(batch: Batch) -> Batch:
    return replace(batch, advantages=-batch.advantages)


def negated(answered: Answer, other: Answer) -> bool:
    return same_answers(answered, other, -1)


@every_level
@every_loss
def test_rows_may_be_permuted(loss_type: LossType, level: Level) -> None:
    """Another order of completions leaves the loss and moves the gradient with its rows."""
    for batch in dyadic_batches():
        order = np.random.default_rng(batch.tokens).permutation(batch.rows)
        permuted = answer(case_of(taking(batch, rows=order), loss_type, level))
        assert same_answers(answer(case_of(batch, loss_type, level)), moved(permuted, rows=order))


@every_level
@every_loss
def test_columns_may_be_permuted_jointly(loss_type: LossType, level: Level) -> None:
    """No loss knows the order of tokens."""
    for batch in dyadic_batches():
        order = np.random.default_rng(batch.tokens).permutation(batch.columns)
        permuted = answer(case_of(taking(batch, columns=order), loss_type, level))
        assert same_answers(answer(case_of(batch, loss_type, level)), moved(permuted, columns=order))


@every_level
@every_loss
def test_padding_may_be_appended(loss_type: LossType, level: Level) -> None:
    """More masked columns change nothing, unless they are what dr_grpo is told to divide by."""
    for seed, batch in enumerate(dyadic_batches()):
        wider = taking(batch, columns=np.array([*range(batch.columns), 0, 0, 0]))
        mask = wider.mask.copy()
        mask[:, batch.columns :] = False
        wider = with_garbage(replace(wider, mask=mask), seed)
        original = answer(case_of(batch, loss_type, level))
        assert same_answers(answer(case_of(wider, loss_type, level)), original)
        narrow = answer(case_of(batch, loss_type, level, max_completion_length=batch.columns))
        wide = answer(case_of(wider, loss_type, level, max_completion_length=wider.columns))
        expected = arb(batch.columns) / wider.columns if loss_type is LossType.DR_GRPO else 1
        assert same_answers(wide, narrow, expected)


@every_level
@every_loss
def test_padding_may_stand_anywhere(loss_type: LossType, level: Level) -> None:
    """Padding on the left or in holes gives the answer of the same tokens without any hole."""
    for seed, batch in enumerate(dyadic_batches()):
        random = np.random.default_rng(seed)
        places = np.sort(random.choice(2 * batch.columns, batch.columns, replace=False))
        wide = taking(batch, columns=np.zeros(2 * batch.columns, dtype=np.int64))
        spread = {}
        for name in ("logps", "old_logps", "ref_logps", "mask"):
            spread[name] = getattr(wide, name).copy()
            spread[name][:] = 0
            spread[name][:, places] = getattr(batch, name)
        apart = answer(case_of(with_garbage(replace(wide, **spread), seed), loss_type, level))
        original = answer(case_of(batch, loss_type, level))
        assert same_answers(apart, moved(original, columns=places))


@every_level
@every_loss
def test_masked_numbers_do_not_matter(loss_type: LossType, level: Level) -> None:
    """Other garbage behind the mask changes nothing."""
    for seed, batch in enumerate(dyadic_batches()):
        original = answer(case_of(batch, loss_type, level))
        assert same_answers(answer(case_of(with_garbage(batch, seed), loss_type, level)), original)


@every_level
@every_loss
def test_advantages_scale_the_answer_without_kl(loss_type: LossType, level: Level) -> None:
    """Advantages times c > 0 give loss and gradient times c; a KL term does not scale."""
    for batch, factor in zip(dyadic_batches(), (0.25, 2.0, 3.0) * 9, strict=False):
        scaled = replace(batch, advantages=batch.advantages * factor)
        original = answer(case_of(batch, loss_type, level, beta=0.0))
        assert same_answers(answer(case_of(scaled, loss_type, level, beta=0.0)), original, factor)
        with_kl = answer(case_of(batch, loss_type, level))
        assert different(answer(case_of(scaled, loss_type, level)).loss, with_kl.loss * factor)


@every_level
@every_loss
def test_opposite_advantages(loss_type: LossType, level: Level) -> None:
    """cispo is odd in the advantages; the others are not, since a minimum treats the signs apart."""
    odd = [
        negated(*(answer(case_of(one, loss_type, level, beta=0.0)) for one in (batch, opposite(batch))))
        for batch in dyadic_batches()
    ]
    if loss_type is LossType.CISPO:
        assert all(odd)
    else:
        # Every batch has a clipped token; a completion is clipped where its mean is far from 0.
        assert sum(odd) == 0 if level is Level.TOKEN else sum(odd) < len(odd) / 2


@every_level
@every_loss
def test_opposite_advantages_inside_the_clip(loss_type: LossType, level: Level) -> None:
    """With every ratio inside the bounds all losses are odd in the advantages."""
    for batch in dyadic_batches(spread=0.125):
        there = answer(case_of(batch, loss_type, level, beta=0.0))
        assert negated(there, answer(case_of(opposite(batch), loss_type, level, beta=0.0)))


@every_level
@every_loss
def test_shift_of_all_log_probabilities(loss_type: LossType, level: Level) -> None:
    """Only cispo's value knows absolute log-probabilities: it moves by the policy gradient times the shift."""
    for seed, batch in enumerate(dyadic_batches()):
        shift = dyadic(np.random.default_rng(seed).uniform(-2.0, 2.0, batch.mask.shape))
        shifted = replace(
            batch,
            logps=batch.logps + shift,
            old_logps=batch.old_logps + shift,
            ref_logps=batch.ref_logps + shift,
        )
        original, moved_by = answer(case_of(batch, loss_type, level)), answer(case_of(shifted, loss_type, level))
        assert same_gradients(moved_by, original)
        change = arb(0)
        if loss_type is LossType.CISPO:
            policy = answer(case_of(batch, loss_type, level, beta=0.0)).gradient
            change = sum((slope * float(shift[at]) for at, slope in policy.items()), arb(0))
            assert different(change, arb(0))
        assert same(moved_by.loss, original.loss + change)


@every_level
@every_loss
def test_beta_is_affine(loss_type: LossType, level: Level) -> None:
    """Loss and gradient lie on the line through beta 0 and beta 1."""
    for batch in dyadic_batches():
        zero, one, between = (answer(case_of(batch, loss_type, level, beta)) for beta in (0.0, 1.0, 0.375))
        assert same(between.loss, zero.loss + (one.loss - zero.loss) * 0.375)
        for at, slope in between.gradient.items():
            assert same(slope, zero.gradient[at] + (one.gradient[at] - zero.gradient[at]) * 0.375)
        assert different(one.loss, zero.loss)


@every_level
@every_loss
def test_without_advantages_the_kl_term_is_left(loss_type: LossType, level: Level) -> None:
    """A = 0 leaves beta times the weighted k3 and its derivative, whatever the ratios."""
    for batch in dyadic_batches():
        case = case_of(replace(batch, advantages=np.zeros(batch.rows)), loss_type, level)
        found, loss = answer(case), arb(0)
        for (row, column), slope in found.gradient.items():
            x = arb(float(batch.ref_logps[row, column])) - arb(float(batch.logps[row, column]))
            loss += weighed(case, row) * (x.exp() - x - 1) / 2
            assert same(slope, weighed(case, row) * (1 - x.exp()) / 2)
        assert same(found.loss, loss)


@every_level
@every_loss
def test_reference_equal_to_current(loss_type: LossType, level: Level) -> None:
    """The KL term and its derivative are 0 where the reference agrees."""
    for batch in dyadic_batches():
        agreeing = replace(batch, ref_logps=batch.logps)
        with_kl, without = (answer(case_of(agreeing, loss_type, level, beta)) for beta in (1.0, 0.0))
        assert same_answers(with_kl, without)
