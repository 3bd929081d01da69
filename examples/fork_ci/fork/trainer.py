"""What trains with it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fork.losses import grpo_loss


class Trainer:
    """Takes optimizer steps on a policy that scores the tokens of `completions` itself."""

    def __init__(self, policy: torch.nn.Module, beta: float = 0.04, learning_rate: float = 1e-6) -> None:
        self.policy = policy
        self.beta = beta
        self.optimizer = torch.optim.AdamW(policy.parameters(), learning_rate)

    def step(self, completions: Tensor, batch: Mapping[str, Tensor]) -> float:
        """One step on `completions` (B, T); `batch`: old_logps, ref_logps, advantages, mask. Returns the loss."""
        loss = grpo_loss(self.policy(completions), beta=self.beta, **batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
