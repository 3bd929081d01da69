"""Faults that only size shows: they change nothing in a batch of a few hundred tokens.

An index of 32 bits wraps at 2^31 positions, which is out of reach; one of 16 bits stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .aggregates import length
from .fault import HALVES, ROW_MEANS, TOKEN_MEANS, Fault
from .steps import Steps

_BLOCK = 1024
_PARTIAL = 512
_WRAPS = 2**16
_WITH_LENGTHS = (*ROW_MEANS, *TOKEN_MEANS)
_SUMS_OF_ALL = (*TOKEN_MEANS, "dr_grpo")


def _counted_in(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    def counted(mask: Tensor) -> Tensor:
        # By way of an integer, a count of 16 bits wraps.
        return length(mask).to(dtype).clamp(min=1).double()

    return counted


def _rows_in_float16(mask: Tensor) -> int:
    return int(torch.tensor(mask.shape[0]).half())


def _whole_blocks(mask: Tensor) -> Tensor:
    counts = length(mask)
    return torch.where(counts > _BLOCK, (counts + _BLOCK - 1) // _BLOCK * _BLOCK, counts)


def _added_in(dtype: torch.dtype, block: int) -> Callable[[Tensor], Tensor]:
    """Sums of blocks as they should be, which are then added up one after the other in a dtype."""

    def added(values: Tensor) -> Tensor:
        total, *others = [part.sum(-1) for part in values.split(block, dim=-1)]
        for partial in others:
            total = (total.to(dtype) + partial.to(dtype)).to(values.dtype)
        return total

    return added


def _without_rest(case: TensorCase) -> TensorCase:
    columns = case.mask.shape[1]
    whole = torch.arange(columns, device=case.mask.device) < max(columns // _BLOCK, 1) * _BLOCK
    return replace(case, mask=case.mask & whole) if columns > _BLOCK else case


def _wrapped(case: TensorCase) -> TensorCase:
    index = torch.arange(case.mask.numel(), device=case.mask.device).view_as(case.mask) % _WRAPS
    named = {
        name: tensor.flatten()[index]
        for name, tensor in case.tensors.items()
        if tensor.shape == case.mask.shape and name != "mask"
    }
    return replace(case, **named)


FAULTS = (
    Fault(
        "count_float16",
        "tokens are counted in float16: exactly up to 2,048, as infinity beyond 65,504",
        Steps(length=_counted_in(torch.float16)),
        loss_types=_WITH_LENGTHS,
        large=True,
    ),
    Fault(
        "count_bfloat16",
        "tokens are counted in bfloat16: exactly up to 256",
        Steps(length=_counted_in(torch.bfloat16)),
        loss_types=_WITH_LENGTHS,
        drowned=("bfloat16",),
        large=True,
    ),
    Fault(
        "count_int16",
        "tokens are counted in 16 bits, which wrap at 32,768",
        Steps(length=_counted_in(torch.int16)),
        loss_types=_WITH_LENGTHS,
        large=True,
    ),
    Fault(
        "rows_float16",
        "completions are counted in float16: exactly up to 2,048",
        Steps(rows=_rows_in_float16),
        loss_types=(*ROW_MEANS, "dr_grpo", "luspo"),
        drowned=HALVES,
        large=True,
    ),
    Fault(
        "index_16_bits",
        "positions of the batch are counted in 16 bits: beyond 65,536 the first ones are read again",
        Steps(inputs=_wrapped),
        large=True,
    ),
    Fault(
        "rest_of_blocks_left_out",
        "of more than 1,024 positions only whole blocks of 1,024 are read",
        Steps(inputs=_without_rest),
        large=True,
    ),
    Fault(
        "blocks_counted_whole",
        "more than 1,024 tokens are counted in whole blocks of 1,024",
        Steps(length=_whole_blocks),
        loss_types=_WITH_LENGTHS,
        large=True,
    ),
    Fault(
        "sum_float16",
        "sums of blocks of 512 tokens are added up in float16",
        Steps(add=_added_in(torch.float16, _PARTIAL)),
        loss_types=_SUMS_OF_ALL,
        large=True,
    ),
    Fault(
        "sum_bfloat16",
        "sums of blocks of 512 tokens are added up in bfloat16",
        Steps(add=_added_in(torch.bfloat16, _PARTIAL)),
        loss_types=_SUMS_OF_ALL,
        large=True,
    ),
)
