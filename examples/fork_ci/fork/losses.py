"""The loss that this fork trains with."""

from __future__ import annotations

import torch
from torch import Tensor


def grpo_loss(
    logps: Tensor,
    old_logps: Tensor | None,
    ref_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    beta: float = 0.0,
    epsilon_low: float = 0.2,
    epsilon_high: float = 0.2,
) -> Tensor:
    """The loss of a batch. `logps`, `old_logps`, `ref_logps`, `mask`: (B, T); `advantages`: (B,) or (B, T)."""
    if advantages.dim() == 1:
        advantages = advantages.unsqueeze(1)
    ratio = torch.exp(logps - (logps.detach() if old_logps is None else old_logps))
    clipped = torch.clamp(ratio, 1 - epsilon_low, 1 + epsilon_high)
    token_losses = -torch.min(ratio * advantages, clipped * advantages)
    if beta:
        log_ratio = ref_logps - logps
        token_losses = token_losses + beta * (torch.exp(log_ratio) - log_ratio - 1)
    completion_losses = (token_losses * mask).sum(1) / mask.sum(1).clamp(min=1)
    return completion_losses.mean()
