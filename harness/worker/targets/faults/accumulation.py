"""Faults in how the losses of two micro-batches are put together, where the batch comes in one piece."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ...target import TensorCase
from .aggregates import Step
from .fault import TOKEN_MEANS, Fault
from .steps import Loss, Steps


def _halves(loss: Loss, case: TensorCase, step: Step) -> list[Tensor]:
    """The losses of the first and the second half of the rows, each by itself; a single row stays whole."""
    middle = case.mask.shape[0] // 2
    if not middle:
        return [loss(case, step)]
    halves = [case.rows(slice(middle)), case.rows(slice(middle, None))]
    return [loss(half, replace(step, mask=half.mask)) for half in halves]


def _mean_of_halves(loss: Loss, case: TensorCase, step: Step) -> Tensor:
    losses = _halves(loss, case, step)
    return sum(losses) / len(losses)


def _sum_of_halves(loss: Loss, case: TensorCase, step: Step) -> Tensor:
    return sum(_halves(loss, case, step))


FAULTS = (
    Fault(
        "accum_mean_of_means",
        "the token means of two micro-batches are averaged, whatever their numbers of tokens",
        Steps(accumulate=_mean_of_halves),
        loss_types=TOKEN_MEANS,
    ),
    Fault(
        "accum_no_div",
        "the means of two micro-batches are added and not divided by 2",
        Steps(accumulate=_sum_of_halves),
    ),
)
