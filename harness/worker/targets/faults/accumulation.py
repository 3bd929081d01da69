"""Faults in how the losses of two micro-batches are put together."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ...target import TensorCase
from .fault import TOKEN_MEANS, Fault
from .steps import Steps


def _halves(case: TensorCase) -> list[TensorCase]:
    """The first and the second half of the rows; a single row stays whole."""
    middle = case.mask.shape[0] // 2
    return [case.rows(slice(middle)), case.rows(slice(middle, None))] if middle else [case]


def _mean_of_halves(loss: Callable[[TensorCase], Tensor], case: TensorCase) -> Tensor:
    losses = [loss(half) for half in _halves(case)]
    return sum(losses) / len(losses)


def _sum_of_halves(loss: Callable[[TensorCase], Tensor], case: TensorCase) -> Tensor:
    return sum(loss(half) for half in _halves(case))


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
