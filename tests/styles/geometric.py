"""Three correct ways to clip the log-ratios of gmpo on the side that the advantage calls for; 0 where it is 0."""

from __future__ import annotations

import torch
from torch import Tensor


def by_sign(log_ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """The smaller of the log-ratio and the clamped one, both times the sign of the advantage; as TRL and verl."""
    sign = torch.sign(advantages)
    return sign * torch.min(sign * log_ratio, sign * torch.clamp(log_ratio, low, high))


def by_branch(log_ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """A clamp on one side for good tokens, on the other for bad ones."""
    zero = torch.zeros_like(log_ratio)
    raised = torch.where(advantages < 0, log_ratio.clamp(min=low), zero)
    return torch.where(advantages > 0, log_ratio.clamp(max=high), raised)


def by_minimum(log_ratio: Tensor, advantages: Tensor, low: float, high: float) -> Tensor:
    """A minimum or a maximum with the bound, which share the gradient with it at a tie."""
    zero, least, most = (log_ratio.new_full((), value) for value in (0.0, low, high))
    raised = torch.where(advantages < 0, torch.maximum(log_ratio, least), zero)
    return torch.where(advantages > 0, torch.minimum(log_ratio, most), raised)
