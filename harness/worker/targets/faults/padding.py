"""Faults in what may stand at masked positions, of targets that promise to ignore whatever does."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .fault import Fault
from .steps import Steps

_ALL = ("finite", "huge", "inf", "nan")


def _blank(values: Tensor | None, mask: Tensor, by: float = 0.0) -> Tensor | None:
    """The tensor with a number of no effect at masked positions, where it has one for each position."""
    if values is None or values.shape != mask.shape:
        return values
    return torch.where(mask, values, values.new_full((), by))


def _policy_blank(case: TensorCase) -> TensorCase:
    mask = case.mask
    return replace(
        case,
        logps=_blank(case.logps, mask),
        old_logps=_blank(case.old_logps, mask),
        advantages=_blank(case.advantages, mask),
        sampling_logps=_blank(case.sampling_logps, mask),
        importance_ratio=_blank(case.importance_ratio, mask, 1.0),
    )


def _all_blank(case: TensorCase) -> TensorCase:
    return replace(_policy_blank(case), ref_logps=_blank(case.ref_logps, case.mask))


FAULTS = (
    Fault(
        "padding_times_0",
        "what stands at masked positions is multiplied by 0, and promised to be ignored",
        Steps(),
        promises=_ALL,
    ),
    Fault(
        "padding_kl_times_0",
        "the KL term at masked positions is multiplied by 0, and what stands there promised to be ignored",
        Steps(inputs=_policy_blank),
        needs=("beta",),
        promises=_ALL,
    ),
    Fault(
        "padding_blank",
        "nothing: masked positions are made 0 before anything else, which keeps the promise to ignore them",
        Steps(inputs=_all_blank),
        promises=_ALL,
        equivalent=True,
    ),
)
