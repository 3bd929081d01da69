"""What the exact answer of a batch has to do with those of its parts, and what it is on-policy."""

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
    dyadic_batches,
    same,
    same_answers,
    taking,
)
from flint import arb, fmpq

from cases.batch import Batch
from cases.case import Case
from cases.conventions import Conventions, EmptyRows
from cases.spec import Level, LossType

ROW_MEANS = (LossType.GRPO, LossType.DR_GRPO, LossType.GMPO)
NOT_COUNTED = Conventions(EmptyRows.NOT_COUNTED)

every_loss = pytest.mark.parametrize("loss_type", [*LOSSES, LossType.GMPO])
every_level = pytest.mark.parametrize("level", Level)


def on_policy_terms(case: Case) -> dict[tuple[int, int], arb]:
    """w A of every unmasked token."""
    terms = {}
    for row, column in np.argwhere(case.batch.mask).tolist():
        weight = token_weights(case)[row]
        advantage = arb(float(case.batch.advantages[row]))
        terms[row, column] = arb(fmpq(weight.numerator, weight.denominator)) * advantage
    return terms


def halves(batch: Batch) -> tuple[Batch, Batch]:
    rows = np.arange(batch.rows)
    return taking(batch, rows=rows[: batch.rows // 2]), taking(batch, rows=rows[batch.rows // 2 :])


def mean(parts: list[Answer], shares: list[arb], rows: int) -> Answer:
    """The weighted mean of answers to parts of `rows` completions each, put one below the other."""
    gradient = {
        (row + rows * number, column): slope * share
        for number, (part, share) in enumerate(zip(parts, shares, strict=True))
        for (row, column), slope in part.gradient.items()
    }
    return Answer(sum((part.loss * share for part, share in zip(parts, shares, strict=True)), arb(0)), gradient)


@pytest.mark.parametrize("implicit", [False, True])
@every_level
@every_loss
def test_on_policy_value(loss_type: LossType, level: Level, implicit: bool) -> None:
    """At ratio 1 the loss is minus the weighted advantages; in cispo each still meets its log-probability."""
    for batch in dyadic_batches(on_policy=True):
        batch = batch if implicit else replace(batch, old_logps=batch.logps)
        case = case_of(batch, loss_type, level, beta=0.0)
        found, terms = answer(case), on_policy_terms(case)
        plain = -sum(terms.values(), arb(0))
        if loss_type is LossType.CISPO:
            reinforce = -sum((term * float(batch.logps[at]) for at, term in terms.items()), arb(0))
            assert same(found.loss, reinforce)
            assert different(found.loss, plain)
        else:
            assert same(found.loss, plain)


@pytest.mark.parametrize("implicit", [False, True])
@every_level
@every_loss
def test_on_policy_gradient(loss_type: LossType, level: Level, implicit: bool) -> None:
    """At ratio 1 every loss has the gradient -w A, nowhere 0; cispo with a cap below 1 has that times the cap."""
    for batch in dyadic_batches(on_policy=True):
        batch = batch if implicit else replace(batch, old_logps=batch.logps)
        case = case_of(batch, loss_type, level, beta=0.0)
        for at, slope in answer(case).gradient.items():
            assert same(slope, -on_policy_terms(case)[at])
            assert different(slope, arb(0))
        if loss_type is LossType.CISPO:
            capped = answer(case_of(batch, loss_type, level, beta=0.0, epsilon_high=0.2))
            assert all(same(slope, -on_policy_terms(case)[at] * 0.2) for at, slope in capped.gradient.items())


@every_level
@every_loss
def test_duplicated_batch(loss_type: LossType, level: Level) -> None:
    """Twice the same completions: the same loss, and half the gradient for each copy."""
    for batch in dyadic_batches():
        original = answer(case_of(batch, loss_type, level))
        rows = np.tile(np.arange(batch.rows), 2)
        doubled = answer(case_of(taking(batch, rows=rows), loss_type, level))
        assert same(doubled.loss, original.loss)
        assert len(doubled.gradient) == 2 * len(original.gradient)
        for (row, column), slope in doubled.gradient.items():
            assert same(slope, original.gradient[row % batch.rows, column] / 2)


@every_level
@every_loss
def test_mean_of_micro_batches(loss_type: LossType, level: Level) -> None:
    """Equal numbers of completions average for losses that are row means, and only for them."""
    for batch in dyadic_batches():
        whole = answer(case_of(batch, loss_type, level))
        parts = [answer(case_of(half, loss_type, level)) for half in halves(batch)]
        expected = mean(parts, [arb(0.5)] * 2, batch.rows // 2)
        unequal = len({half.tokens for half in halves(batch)}) > 1
        if loss_type in ROW_MEANS or not unequal:
            assert same_answers(whole, expected)
        else:
            assert different(whole.loss, expected.loss)


@every_level
@every_loss
def test_token_weighted_mean_of_micro_batches(loss_type: LossType, level: Level) -> None:
    """Weighted by their tokens, the parts of a token mean give the whole; those of a row mean do not."""
    for batch in dyadic_batches():
        whole = answer(case_of(batch, loss_type, level))
        parts = [answer(case_of(half, loss_type, level)) for half in halves(batch)]
        shares = [arb(half.tokens) / batch.tokens for half in halves(batch)]
        expected = mean(parts, shares, batch.rows // 2)
        unequal = len({half.tokens for half in halves(batch)}) > 1
        if loss_type in ROW_MEANS and unequal:
            assert different(whole.loss, expected.loss)
        else:
            assert same_answers(whole, expected)


@every_level
@every_loss
def test_masked_row(loss_type: LossType, level: Level) -> None:
    """A completion without tokens is as good as deleted where tokens are counted; row means count it in B."""
    for batch in dyadic_batches():
        mask = batch.mask.copy()
        mask[-1] = False
        masked = replace(batch, mask=mask)
        deleted = taking(batch, rows=np.arange(batch.rows - 1))
        without = answer(case_of(deleted, loss_type, level))
        share = arb(batch.rows - 1) / batch.rows if loss_type in ROW_MEANS else arb(1)
        assert same_answers(answer(case_of(masked, loss_type, level)), without, share)
        not_counted = case_of(masked, loss_type, level, conventions=NOT_COUNTED)
        assert same_answers(answer(not_counted), without)
