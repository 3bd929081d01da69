"""An optimizer step of several micro-batches, put together in one process."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from .target import Split, TensorCase


def step_loss(case: TensorCase, micro_batch: Callable[[TensorCase], Tensor]) -> Tensor:
    """The loss of the judged step: those of its micro-batches added up on a rank, then averaged over ranks."""
    if case.split == Split():
        return micro_batch(case)
    # In float64: nobody forms this sum in a smaller dtype, because it is gradients that are added up.
    ranks = [
        sum(micro_batch(case.rows(part)).double() for part in parts)
        for parts in case.split.judged(case.mask.shape[0])
    ]
    total: Tensor = sum(ranks) / len(ranks)
    return total


def step_masks(case: TensorCase) -> list[list[Tensor]]:
    """The masks of the micro-batches of the judged step, per rank."""
    return [[case.mask[part] for part in parts] for parts in case.split.judged(case.mask.shape[0])]
