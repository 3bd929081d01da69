"""GRPO with a KL term, for batches that are padded on the right."""

import torch


def grpo_loss(logps, old_logps, ref_logps, advantages, mask, beta, epsilon_low, epsilon_high):
    """All of shape (B, T) but `advantages`, (B,) or (B, T), and the numbers; `old_logps` None is on-policy."""
    old_logps = logps.detach() if old_logps is None else old_logps
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    ratio = (logps - old_logps).exp()
    clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    losses = -torch.min(ratio * advantages, clipped * advantages)
    if beta:
        difference = ref_logps - logps
        losses = losses + beta * (difference.exp() - difference - 1)
    lengths = mask.sum(1).clamp(min=1)
    return ((losses * mask).sum(1) / lengths).mean()
