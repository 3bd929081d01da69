"""Faults in the importance ratio."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...target import TensorCase
from .fault import CLIPPED, RATIOS, Fault
from .steps import Steps
from .terms import completion_mean, completion_sum, log_ratio


def _from_itself(case: TensorCase) -> Tensor:
    return case.logps - case.logps.detach()


def _clamped(to: float) -> Callable[[TensorCase], Tensor]:
    return lambda case: log_ratio(case).clamp(-to, to)


def _mean_of_none(log_ratios: Tensor, case: TensorCase) -> Tensor:
    return completion_sum(log_ratios, case) / case.mask.sum(-1, keepdim=True)


FAULTS = (
    Fault(
        "ratio_detached",
        "the ratio is detached, so that the policy term has no gradient",
        Steps(exp=lambda log_ratios: torch.exp(log_ratios).detach()),
        loss_types=(*CLIPPED, "sapo"),
    ),
    Fault(
        "ratio_inverted",
        "the ratio is the old probability over the current one",
        Steps(log_ratio=lambda case: -log_ratio(case)),
    ),
    Fault(
        "old_is_self",
        "the old log-probabilities are ignored and the current ones detached in their place",
        Steps(log_ratio=_from_itself),
    ),
    Fault(
        "seq_level",
        "the ratio is that of the completion, where one for each token is meant",
        Steps(at_level=completion_mean),
        loss_types=RATIOS,
        levels=("token",),
    ),
    Fault(
        "seq_no_min1",
        "the mean log-ratio of a completion without tokens is 0 divided by 0",
        Steps(at_level=_mean_of_none),
        loss_types=RATIOS,
        levels=("sequence",),
    ),
    Fault("clamp_d_10", "log-ratios are clamped to -10 .. 10", Steps(log_ratio=_clamped(10))),
    Fault(
        "clamp_d_20",
        "log-ratios are clamped to -20 .. 20",
        Steps(log_ratio=_clamped(20)),
        RATIOS,
        # It has no room for e^20.
        drowned=("float16",),
    ),
)
