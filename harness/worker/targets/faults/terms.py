"""The terms of the eight losses in plain torch, one small function a step; as they stand, all are correct."""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from ...target import Spec, TensorCase

# Aliases are evaluated when the module is imported, by Python 3.9 too.
Bounds = tuple[Optional[float], float]

LOWEST = math.log(1e-8)
HIGHEST = 20.0
"""Where vespo clips logarithms of ratios."""


def log_ratio(case: TensorCase) -> Tensor:
    """log pi - log pi_old, (B, T)."""
    return case.logps - (case.logps.detach() if case.old_logps is None else case.old_logps)


def at_level(log_ratios: Tensor, case: TensorCase) -> Tensor:
    """Per token (B, T), or the mean of each completion (B, 1)."""
    if case.spec.importance_sampling_level == "sequence":
        return completion_mean(log_ratios, case)
    return log_ratios


def completion_mean(values: Tensor, case: TensorCase) -> Tensor:
    """The mean over the tokens of each completion, (B, 1)."""
    return completion_sum(values, case) / case.mask.sum(-1, keepdim=True).clamp(min=1)


def completion_sum(values: Tensor, case: TensorCase) -> Tensor:
    """The sum over the tokens of each completion, (B, 1)."""
    return (values * case.mask).sum(-1, keepdim=True)


def by_token(case: TensorCase) -> Tensor:
    """Advantages of shape (B, T), or (B, 1)."""
    return case.advantages if case.advantages.dim() == 2 else case.advantages.unsqueeze(1)


def bounds(case: TensorCase) -> Bounds:
    """Where the ratio is clipped; cispo caps it absolutely and has no lower bound."""
    if case.spec.loss_type == "cispo":
        return None, case.spec.epsilon_high
    return 1 - case.spec.epsilon_low, 1 + case.spec.epsilon_high


def clip(ratio: Tensor, low: float | None, high: float) -> Tensor:
    """The ratio inside its bounds."""
    return torch.clamp(ratio, low, high)


def cap(ratio: Tensor, case: TensorCase) -> Tensor:
    """min(r, delta), which stands in for the unclipped ratio."""
    return torch.clamp(ratio, max=case.spec.delta)


def smaller(ratio: Tensor, clipped: Tensor, advantages: Tensor, _logps: Tensor) -> Tensor:
    """min(r A, clip(r) A)."""
    return torch.min(ratio * advantages, clipped * advantages)


def weighted(_ratio: Tensor, clipped: Tensor, advantages: Tensor, logps: Tensor) -> Tensor:
    """sg(clip(r)) A log pi, which is cispo's."""
    return clipped.detach() * advantages * logps


def temperature(advantages: Tensor, spec: Spec) -> Tensor:
    """sapo's tau."""
    return chosen(advantages > 0, spec.sapo_temperature_pos, spec.sapo_temperature_neg, advantages)


def soft_gate(ratio: Tensor, tau: Tensor) -> Tensor:
    """4 / tau sigmoid(tau (r - 1)), which is sapo's."""
    return torch.sigmoid(tau * (ratio - 1)) * (4 / tau)


def chosen(condition: Tensor, yes: float, no: float, like: Tensor) -> Tensor:
    """One of two numbers everywhere, in the dtype of `like`."""
    return torch.where(condition, like.new_full((), yes), like.new_full((), no))


def log_weight(log_ratios: Tensor, case: TensorCase) -> Tensor:
    """The logarithm of vespo's weight of a completion, (B, 1), unclipped: importance ratios are in it."""
    logs = log_ratios.clamp(-HIGHEST, HIGHEST)
    if case.importance_ratio is not None:
        logs = logs + log_importance(case.importance_ratio)
    return completion_sum(logs, case)


def log_importance(ratio: Tensor) -> Tensor:
    """The logarithm of an importance ratio, which may be 0, inside vespo's bounds."""
    return torch.log(ratio).clamp(LOWEST, HIGHEST)


def clip_weight(log_weights: Tensor) -> Tensor:
    """The logarithm of the weight inside vespo's bounds."""
    return log_weights.clamp(LOWEST, HIGHEST)


def shape(advantages: Tensor, spec: Spec) -> tuple[Tensor, Tensor]:
    """vespo's k and lambda."""
    positive = advantages >= 0
    return (
        chosen(positive, spec.vespo_k_pos, spec.vespo_k_neg, advantages),
        chosen(positive, spec.vespo_lambda_pos, spec.vespo_lambda_neg, advantages),
    )


def gamma(log_weights: Tensor, k: Tensor, lam: Tensor) -> Tensor:
    """exp(lambda) W^k exp(-lambda W), which is vespo's phi."""
    return torch.exp(lam + k * log_weights - lam * torch.exp(log_weights))


def by_constant(weight: Tensor, advantages: Tensor, logps: Tensor) -> Tensor:
    """sg(phi) A log pi."""
    return weight.detach() * advantages * logps


def k3(x: Tensor) -> Tensor:
    """exp(x) - x - 1 of x = log pi_ref - log pi."""
    return torch.exp(x) - x - 1


def correct_bias(kl: Tensor, ratio: Tensor) -> Tensor:
    """The KL estimate times the ratio, with the gradient through both."""
    return kl * ratio


def drift(case: TensorCase) -> Tensor:
    """The mean of log pi_sampling - log pi over each completion, (B, 1); log pi_old where there is none."""
    return completion_mean(sampled(case) - case.logps.detach(), case)


def sampled(case: TensorCase) -> Tensor:
    """Log-probabilities of the policy that sampled the tokens."""
    if case.sampling_logps is not None:
        return case.sampling_logps
    return case.logps.detach() if case.old_logps is None else case.old_logps


def kept(drifts: Tensor, case: TensorCase) -> Tensor:
    """Which tokens keep their policy term under the off-policy mask; equality keeps."""
    return (by_token(case) >= 0) | (drifts <= case.spec.off_policy_mask_threshold)


def drop(policy: Tensor, keeps: Tensor) -> Tensor:
    """The policy term without what the off-policy mask drops."""
    return policy * keeps


def weigh(policy: Tensor, importance_ratio: Tensor) -> Tensor:
    """The policy term times the importance ratio."""
    return policy * importance_ratio
