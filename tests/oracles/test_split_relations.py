"""What ranks, micro-batches and generation batches do to the exact answer, and what they must not do."""

from __future__ import annotations

from collections.abc import Iterator
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
from cases.conventions import Conventions, WindowTokens
from cases.spec import KLEstimator, Level, LossType
from cases.split import Mode, Split
from oracles.expectation import expect

WINDOW: Final = (LossType.DAPO, LossType.CISPO, LossType.VESPO)
BY_TOKENS: Final = (LossType.BNPO, *WINDOW)
PARTITIONS: Final = tuple(
    Split(ranks, steps, steps) for ranks, steps in ((1, 2), (1, 12), (2, 1), (2, 3), (3, 1), (3, 4), (12, 1))
)
RAGGED: Final = (3, 1, 4, 1, 5, 0, 2, 6, 3, 5, 1, 2)
AVERAGE: Final = Conventions(window_tokens=WindowTokens.GENERATION_AVERAGE)

every_loss = pytest.mark.parametrize("loss_type", LossType)
every_level = pytest.mark.parametrize("level", Level)
every_partition = pytest.mark.parametrize(
    "split", PARTITIONS, ids=lambda split: f"{split.ranks}x{split.accumulation_steps}"
)


def batches(lengths: tuple[int, ...] = RAGGED) -> Iterator[Batch]:
    """Twelve completions, without options and with importance ratios and numbers for the off-policy mask."""
    for batch in dyadic_batches(2, lengths=lengths):
        random = np.random.default_rng(batch.tokens)
        yield batch
        yield replace(
            batch,
            sampling_logps=batch.logps + dyadic(random.uniform(-1.0, 1.0, batch.mask.shape)),
            importance_ratio=dyadic(random.uniform(0.0, 2.0, batch.mask.shape)),
        )


def split_case(batch: Batch, loss_type: LossType, level: Level, split: Split, **options: Any) -> Case:
    """A case in which every option acts that the batch has numbers for."""
    if batch.importance_ratio is not None:
        options |= {"off_policy_mask_threshold": 0.125, "kl_estimator": KLEstimator.K3_BIAS_CORRECTED}
        options |= {"delta": 2.0} if loss_type.clips else {}
    return replace(case_of(batch, loss_type, level, **options), split=split)


def mean_of_parts(case: Case, by_tokens: bool) -> Answer:
    """The answers to the micro-batches as batches of their own, averaged evenly or by their tokens."""
    parts = [rows for rank in case.split.judged(case.batch.rows) for rows in rank]
    tokens = case.batch.lengths
    total = sum(int(tokens[rows].sum()) for rows in parts)
    loss, gradient = arb(0), {}
    for rows in parts:
        share = arb(int(tokens[rows].sum())) / total if by_tokens else arb(1) / len(parts)
        part = answer(replace(case, batch=case.batch.take(rows), split=Split()))
        loss += part.loss * share
        gradient |= {(rows[row], column): slope * share for (row, column), slope in part.gradient.items()}
    return Answer(loss, gradient)


@every_partition
@every_level
@every_loss
def test_partitions_of_the_same_rows(loss_type: LossType, level: Level, split: Split) -> None:
    """Ranks and micro-batches of equal rows change nothing, but for the mean of token means that bnpo is."""
    for batch in batches():
        whole = answer(split_case(batch, loss_type, level, Split()))
        parted = answer(split_case(batch, loss_type, level, split))
        if loss_type is LossType.BNPO:
            assert different(parted.loss, whole.loss)
            assert not same_gradients(parted, whole)
        else:
            assert same_answers(parted, whole)


@every_partition
@every_level
def test_bnpo_with_equal_token_counts(level: Level, split: Split) -> None:
    """Where all micro-batches have as many tokens, bnpo does not know them apart either."""
    for batch in batches((3,) * 12):
        whole = answer(split_case(batch, LossType.BNPO, level, Split()))
        assert same_answers(answer(split_case(batch, LossType.BNPO, level, split)), whole)


@every_partition
@every_level
@every_loss
def test_step_is_a_mean_of_its_micro_batches(loss_type: LossType, level: Level, split: Split) -> None:
    """Even for bnpo and what divides by rows; by tokens for what divides by those of the window."""
    for batch in batches():
        case = split_case(batch, loss_type, level, split)
        step = answer(case)
        assert same_answers(step, mean_of_parts(case, by_tokens=loss_type in WINDOW))
        assert not same_gradients(step, mean_of_parts(case, by_tokens=loss_type not in WINDOW))


@every_level
@every_loss
def test_whole_batch_as_a_mean_of_parts(loss_type: LossType, level: Level) -> None:
    """What is divided by tokens is the mean by tokens of its parts, bnpo too; the others are the even mean."""
    for batch in batches():
        whole = answer(split_case(batch, loss_type, level, Split()))
        apart = split_case(batch, loss_type, level, Split(2, 2, 2))
        assert same_answers(whole, mean_of_parts(apart, by_tokens=loss_type in BY_TOKENS))
        assert not same_gradients(whole, mean_of_parts(apart, by_tokens=loss_type not in BY_TOKENS))


@pytest.mark.parametrize("split", [Split(1, 1, 2), Split(1, 2, 6), Split(2, 1, 3), Split(3, 2, 4)])
@every_level
@every_loss
def test_judged_step_of_a_generation_batch(loss_type: LossType, level: Level, split: Split) -> None:
    """The step is what its rows are by themselves; numbers beyond it do not enter, and have no gradient."""
    share = split.accumulation_steps / split.steps_per_generation
    for batch in batches():
        case = split_case(batch, loss_type, level, split)
        rows = [row for rank in split.judged(batch.rows) for part in rank for row in part]
        assert len(rows) == batch.rows * share
        alone = replace(split, steps_per_generation=split.accumulation_steps)
        step, by_itself = answer(case), answer(replace(case, batch=batch.take(rows), split=alone))
        assert same(step.loss, by_itself.loss)
        assert all(same(*pair) for pair in zip(step.gradient.values(), by_itself.gradient.values(), strict=True))
        beyond = np.ones(batch.rows, dtype=bool)
        beyond[rows] = False
        others = np.where(beyond[:, None], batch.logps - 1.5, batch.logps)
        assert same_answers(answer(replace(case, batch=replace(batch, logps=others))), step)
        for exact in expect(case).gradients:
            assert (exact.high[beyond] == 0.0).all()
            assert (exact.bound[beyond] == 0.0).all()
            assert (exact.high[rows][batch.mask[rows]] != 0.0).any()


@pytest.mark.parametrize("split", [Split(1, 1, 2), Split(1, 2, 4), Split(2, 1, 3), Split(2, 2, 6)])
@every_level
@every_loss
def test_average_window(loss_type: LossType, level: Level, split: Split) -> None:
    """The average divisor scales a step by its tokens over the average; the factors of all steps average to 1."""
    steps = split.steps_per_generation // split.accumulation_steps
    for batch in batches():
        factors = []
        for step in range(steps):
            # The step in question goes first on every rank.
            by_step = np.arange(batch.rows).reshape(split.ranks, steps, -1)
            turned = batch.take(np.roll(by_step, -step, axis=1).ravel().tolist())
            exact = answer(split_case(turned, loss_type, level, split))
            average = answer(split_case(turned, loss_type, level, split, conventions=AVERAGE))
            tokens = sum(int(turned.lengths[rows].sum()) for rank in split.judged(12) for rows in rank)
            factor = arb(tokens * steps) / batch.tokens if loss_type in WINDOW else arb(1)
            assert same_answers(average, exact, factor)
            assert same_answers(average, exact) == (loss_type not in WINDOW or tokens * steps == batch.tokens)
            factors.append(average.loss / exact.loss)
        assert same(sum(factors, arb(0)), arb(steps))
        assert loss_type not in WINDOW or any(different(factor, arb(1)) for factor in factors)


@pytest.mark.parametrize("conventions", [Conventions(), AVERAGE], ids=["exact", "average"])
@pytest.mark.parametrize("ranks", [1, 3])
@every_level
@every_loss
def test_evaluation(loss_type: LossType, level: Level, ranks: int, conventions: Conventions) -> None:
    """In evaluation the step counts do not matter: each rank has all of its rows in one piece."""
    for batch in batches():
        trained = answer(split_case(batch, loss_type, level, Split(ranks)))
        for steps in ((1, 1), (2, 2), (2, 4), (5, 35)):
            split = Split(ranks, *steps, mode=Mode.EVAL)
            assert same_answers(
                answer(split_case(batch, loss_type, level, split, conventions=conventions)), trained
            )
