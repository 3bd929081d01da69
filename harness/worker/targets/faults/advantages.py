"""Faults in the advantages."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .fault import HALVES, Fault
from .steps import Steps


def _changed(by: Callable[[Tensor], Tensor]) -> Steps:
    return Steps(inputs=lambda case: replace(case, advantages=by(case.advantages)))


def _along_columns(case: TensorCase) -> TensorCase:
    rows, columns = case.mask.shape
    if case.advantages.dim() == 2 or rows != columns:
        return case
    return replace(case, advantages=case.advantages.unsqueeze(0).expand(rows, columns))


def _population(advantages: Tensor) -> Tensor:
    rows = advantages.shape[0]
    return advantages * math.sqrt((rows - 1) / rows)


FAULTS = (
    Fault(
        "adv_broadcast_T",
        "where B = T, advantages are spread along tokens, not along completions",
        Steps(inputs=_along_columns),
    ),
    Fault(
        "adv_unsq_flip", "advantages are given to the completions in reverse order", _changed(lambda a: a.flip(0))
    ),
    Fault("adv_sign", "advantages have the wrong sign", _changed(torch.neg)),
    Fault("ddof", "advantages are scaled by sqrt((B - 1) / B)", _changed(_population)),
    Fault(
        "adv_eps_1e-4",
        "advantages are divided by 1 + 1e-4",
        _changed(lambda a: a / 1.0001),
        drowned=HALVES,
    ),
    Fault(
        "adv_bf16",
        "advantages are rounded to bfloat16",
        _changed(lambda a: a.to(torch.bfloat16).to(a.dtype)),
        dtypes=("float64", "float32", "float16"),
    ),
)
