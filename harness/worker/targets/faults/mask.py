"""Faults in the mask, and one change of it that is none."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .aggregates import Step, by_loss_type
from .fault import Fault
from .steps import Steps
from .terms import by_token, log_ratio


def _one_late(case: TensorCase) -> TensorCase:
    mask = torch.zeros_like(case.mask)
    mask[:, 1:] = case.mask[:, :-1]
    return replace(case, mask=mask)


def _without_last(case: TensorCase) -> TensorCase:
    left = case.mask.flip(-1).cumsum(-1).flip(-1)
    return replace(case, mask=case.mask & (left > 1))


def _advantages(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    weights = by_token(case).expand_as(case.mask)
    return by_loss_type(losses, replace(case, mask=weights), step, steps)


def _masked(case: TensorCase) -> Tensor:
    return log_ratio(case) * case.mask


FAULTS = (
    Fault("mask_shift", "the mask is one position late", Steps(inputs=_one_late)),
    Fault("mask_drop_last", "the last token of every completion is masked", Steps(inputs=_without_last)),
    Fault(
        "mask_is_advantages",
        "token losses are averaged with the advantages in the place of the mask",
        Steps(aggregate=_advantages),
    ),
    Fault(
        "mask_logratio",
        "nothing: log-ratios are masked before the exponential, token losses after it all the same",
        Steps(log_ratio=_masked),
        equivalent=True,
    ),
)
