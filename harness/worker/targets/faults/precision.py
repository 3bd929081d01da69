"""Faults in precision and scale."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .fault import HALVES, RATIOS, Fault
from .steps import Steps


def _exp_in_bfloat16(log_ratios: Tensor) -> Tensor:
    return torch.exp(log_ratios.to(torch.bfloat16)).to(log_ratios.dtype)


def _add_in_bfloat16(values: Tensor) -> Tensor:
    total = torch.zeros(values.shape[:-1], dtype=torch.bfloat16, device=values.device)
    for value in values.to(torch.bfloat16).unbind(-1):
        total = total + value
    return total.to(values.dtype)


def _in_float32(case: TensorCase) -> TensorCase:
    floats = {name: tensor.float() for name, tensor in case.tensors.items() if tensor.is_floating_point()}
    return replace(case, **floats)


def _scaled(by: str, drowned: tuple[str, ...] = HALVES) -> Fault:
    wrong = f"the loss is multiplied by 1 + {by}"
    return Fault(f"scale_{by}", wrong, Steps(factor=1 + float(by)), drowned=drowned)


FAULTS = (
    Fault(
        "exp_bf16",
        "the ratio is computed in bfloat16",
        Steps(exp=_exp_in_bfloat16),
        loss_types=RATIOS,
        dtypes=("float64", "float32", "float16"),
    ),
    Fault("bf16_accum", "sums are accumulated in bfloat16", Steps(add=_add_in_bfloat16)),
    Fault(
        "f32_inside",
        "a float64 input is computed in float32",
        Steps(inputs=_in_float32),
        dtypes=("float64",),
    ),
    _scaled("1e-2", drowned=()),
    _scaled("1e-3", drowned=("bfloat16",)),
    _scaled("1e-4"),
    _scaled("1e-5"),
    _scaled("1e-6"),
)
