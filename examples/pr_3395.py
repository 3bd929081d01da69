"""The GRPO loss as TRL's documentation printed it, with one denominator for all tokens (TRL PR #3395).

The printed formula divides the sum over all tokens by their number. The paper's GRPO, and TRL's code for
`loss_type="grpo"`, take the mean of each completion first and then the mean over completions. What is printed is
what TRL calls `bnpo`. Judge it as both:

    lossgate run examples.pr_3395:loss --loss-type grpo
    lossgate run examples.pr_3395:loss --loss-type bnpo
"""

from __future__ import annotations

import torch
from torch import Tensor


def loss(
    logps: Tensor,
    old_logps: Tensor | None,
    ref_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    beta: float,
    epsilon_low: float,
    epsilon_high: float,
    importance_sampling_level: str,
) -> Tensor:
    """The loss of a batch. `logps`, `old_logps`, `ref_logps`, `mask`: (B, T); `advantages`: (B,) or (B, T)."""
    if advantages.dim() == 1:
        advantages = advantages.unsqueeze(1)
    log_ratio = logps - (logps.detach() if old_logps is None else old_logps)
    if importance_sampling_level == "sequence":
        log_ratio = (log_ratio * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    ratio = torch.exp(log_ratio)
    clipped = torch.clamp(ratio, 1 - epsilon_low, 1 + epsilon_high)
    token_losses = -torch.min(ratio * advantages, clipped * advantages)
    if beta:
        x = ref_logps - logps
        token_losses = token_losses + beta * (torch.exp(x) - x - 1)
    return (token_losses * mask).sum() / mask.sum().clamp(min=1)
