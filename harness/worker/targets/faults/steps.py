"""The five losses in plain mask-multiply torch, cut into small steps; a fault is one step done wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor

from ...target import TensorCase

# Aliases are evaluated when the module is imported, by Python 3.9 too.
Bounds = tuple[Optional[float], float]
Aggregate = Callable[[Tensor], Tensor]


def as_given(case: TensorCase) -> TensorCase:
    """The case itself."""
    return case


def in_one_piece(loss: Callable[[TensorCase], Tensor], case: TensorCase) -> Tensor:
    """The loss of all rows together."""
    return loss(case)


def log_ratio(case: TensorCase) -> Tensor:
    """log pi - log pi_old, (B, T)."""
    return case.logps - (case.logps.detach() if case.old_logps is None else case.old_logps)


def at_level(log_ratios: Tensor, case: TensorCase) -> Tensor:
    """Per token (B, T), or the mean of each completion (B, 1)."""
    if case.spec.importance_sampling_level == "sequence":
        return completion_mean(log_ratios, case)
    return log_ratios


def completion_mean(log_ratios: Tensor, case: TensorCase) -> Tensor:
    """The mean over the tokens of each completion, (B, 1)."""
    lengths = case.mask.sum(-1, keepdim=True).clamp(min=1)
    return (log_ratios * case.mask).sum(-1, keepdim=True) / lengths


def bounds(case: TensorCase) -> Bounds:
    """Where the ratio is clipped; cispo caps it absolutely and has no lower bound."""
    if case.spec.loss_type == "cispo":
        return None, case.spec.epsilon_high
    return 1 - case.spec.epsilon_low, 1 + case.spec.epsilon_high


def clip(ratio: Tensor, low: float | None, high: float) -> Tensor:
    """The ratio inside its bounds."""
    return torch.clamp(ratio, low, high)


def smaller(ratio: Tensor, clipped: Tensor, advantages: Tensor, _logps: Tensor) -> Tensor:
    """min(r A, clip(r) A)."""
    return torch.min(ratio * advantages, clipped * advantages)


def weighted(_ratio: Tensor, clipped: Tensor, advantages: Tensor, logps: Tensor) -> Tensor:
    """sg(clip(r)) A log pi, which is cispo's."""
    return clipped.detach() * advantages * logps


def k3(x: Tensor) -> Tensor:
    """exp(x) - x - 1 of x = log pi_ref - log pi."""
    return torch.exp(x) - x - 1


def kl_inside(policy: Tensor, kl: Tensor, _ratio: Tensor, case: TensorCase, aggregate: Aggregate) -> Tensor:
    """The KL term added to every token, then aggregated with it."""
    return aggregate(policy + case.spec.beta * kl)


def add(values: Tensor) -> Tensor:
    """The sum over the last dimension."""
    return values.sum(-1)


def length(mask: Tensor) -> Tensor:
    """The divisor of a mean over the last dimension: its tokens, at least 1."""
    return mask.sum(-1).clamp(min=1)


def rows(mask: Tensor) -> int:
    """The divisor of a mean over completions: B."""
    return int(mask.shape[0])


def by_loss_type(losses: Tensor, case: TensorCase, steps: Steps) -> Tensor:
    """Token losses (B, T) to one number, as the loss type says."""
    if case.spec.loss_type == "grpo":
        return mean_of_means(losses, case, steps)
    if case.spec.loss_type == "dr_grpo":
        total = steps.add((losses * case.mask).flatten())
        return total / (steps.rows(case.mask) * case.spec.max_completion_length)
    return token_mean(losses, case, steps)


def mean_of_means(losses: Tensor, case: TensorCase, steps: Steps) -> Tensor:
    """The mean of each completion, then over completions."""
    means = steps.add(losses * case.mask) / steps.length(case.mask)
    return steps.add(means) / steps.rows(case.mask)


def token_mean(losses: Tensor, case: TensorCase, steps: Steps) -> Tensor:
    """The mean over all tokens."""
    return steps.add((losses * case.mask).flatten()) / steps.length(case.mask.flatten())


@dataclass(frozen=True)
class Steps:
    """How a loss is computed; as they stand, the steps are correct for all five losses."""

    inputs: Callable[[TensorCase], TensorCase] = as_given
    accumulate: Callable[[Callable[[TensorCase], Tensor], TensorCase], Tensor] = in_one_piece
    log_ratio: Callable[[TensorCase], Tensor] = log_ratio
    at_level: Callable[[Tensor, TensorCase], Tensor] = at_level
    exp: Callable[[Tensor], Tensor] = torch.exp
    bounds: Callable[[TensorCase], Bounds] = bounds
    clip: Callable[[Tensor, float | None, float], Tensor] = clip
    surrogate: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = smaller
    estimator: Callable[[Tensor], Tensor] = k3
    combine: Callable[[Tensor, Tensor, Tensor, TensorCase, Aggregate], Tensor] = kl_inside
    add: Callable[[Tensor], Tensor] = add
    length: Callable[[Tensor], Tensor] = length
    rows: Callable[[Tensor], int] = rows
    aggregate: Callable[[Tensor, TensorCase, Steps], Tensor] = by_loss_type
    factor: float = 1.0

    def loss(self, case: TensorCase) -> Tensor:
        """The loss of a case."""
        return self.accumulate(self._loss, self.inputs(case)) * self.factor

    def _loss(self, case: TensorCase) -> Tensor:
        ratio = self.exp(self.at_level(self.log_ratio(case), case))
        clipped = self.clip(ratio, *self.bounds(case))
        advantages = case.advantages if case.advantages.dim() == 2 else case.advantages.unsqueeze(1)
        surrogate = weighted if case.spec.loss_type == "cispo" else self.surrogate
        policy = -surrogate(ratio, clipped, advantages, case.logps)

        def aggregate(losses: Tensor) -> Tensor:
            # At sequence level a completion may have one loss for all its tokens.
            return self.aggregate(losses.expand_as(case.mask), case, self)

        if case.spec.beta == 0:
            return aggregate(policy)
        kl = self.estimator(case.ref_logps - case.logps)
        return self.combine(policy, kl, ratio, case, aggregate)
