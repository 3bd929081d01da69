"""A correct implementation without automatic differentiation."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.styles.geometric import by_branch
from tests.styles.inputs import HIGHEST, LOWEST, MEANS_OF_ROWS, Inputs, style


class _ClosedForm(torch.autograd.Function):  # type: ignore[misc]  # torch is not followed
    """The loss with its derivative written out, computed in the forward pass and stored."""

    @staticmethod
    def forward(ctx: Any, _logps: Tensor, p: Inputs) -> Tensor:
        loss, gradient = _loss_and_gradient(p)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * upstream, None


def _loss_and_gradient(p: Inputs) -> tuple[Tensor, Tensor]:
    mask = p.mask.to(p.logps.dtype)
    lengths = mask.sum(-1, keepdim=True).clamp(min=1)
    weights = _weights(p, mask, lengths)
    factors = _factors(p, mask, lengths)
    advantages = p.by_token.expand_as(mask)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = ((log_ratio * mask).sum(-1, keepdim=True) / lengths).expand_as(mask)
    ratio = log_ratio.exp()

    def through_ratio(slopes: Tensor) -> Tensor:
        """The derivative by log-probabilities, of what has these slopes by the ratios."""
        if p.per_sequence:
            # Every token moves the ratio of its completion by 1 / length.
            return mask / lengths * ratio * slopes.sum(-1, keepdim=True)
        return slopes * ratio

    if p.loss_type in ("cispo", "vespo"):
        slope = -(ratio.clamp(max=p.high) if p.loss_type == "cispo" else _phi(p, mask)) * advantages
        losses = slope * p.logps
        gradient = weights * (factors * slope)
    elif p.loss_type == "sapo":
        gate = torch.sigmoid(p.tau * (ratio - 1))
        losses = -(4 / p.tau) * gate * advantages
        gradient = through_ratio(weights * (factors * (-4 * gate * (1 - gate) * advantages)))
    elif p.loss_type == "gmpo":
        passes, mean = _geometric_mean(p, mask, lengths)
        losses = -mean * advantages
        gradient = passes / lengths * (weights * (factors * losses)).sum(-1, keepdim=True)
    else:
        cap = math.inf if p.delta is None else p.delta
        losses = -torch.min(ratio.clamp(max=cap) * advantages, ratio.clamp(p.low, p.high) * advantages)
        rising = (advantages > 0) & (ratio < min(p.high, cap))
        falling = (advantages < 0) & (ratio > p.low) & (ratio < max(p.high, cap))
        slope = torch.where(rising | falling, -advantages, torch.zeros_like(advantages))
        gradient = through_ratio(weights * (factors * slope))
    losses = losses * factors
    if p.beta:
        x = p.ref_log_ratio
        kl, kl_slope = p.estimated(x, x.exp() - x - 1), 1 - x.exp()
        if p.kl_estimator in ("k1", "k2"):
            kl_slope = torch.ones_like(x) if p.kl_estimator == "k1" else -x
        if p.corrects_bias:
            losses = losses + p.beta * (ratio * kl)
            gradient = gradient + p.beta * weights * (ratio * kl_slope) + through_ratio(p.beta * weights * kl)
        else:
            losses = losses + p.beta * kl
            gradient = gradient + p.beta * weights * kl_slope
    return (weights * losses).sum(), gradient


def _weights(p: Inputs, mask: Tensor, lengths: Tensor) -> Tensor:
    """What each token's loss counts in the loss of the batch."""
    if p.loss_type in MEANS_OF_ROWS:
        return mask / (len(mask) * lengths)
    if p.loss_type == "luspo":
        return mask / len(mask)
    if p.loss_type == "dr_grpo":
        return mask / (len(mask) * p.max_completion_length)
    return mask / mask.sum().clamp(min=1)


def _factors(p: Inputs, mask: Tensor, lengths: Tensor) -> Tensor:
    """The constant factors of the policy term: the importance ratio, and 0 where the off-policy mask drops."""
    factors = torch.ones_like(mask) if p.factor is None else p.factor.expand_as(mask)
    if p.off_policy_mask_threshold is not None:
        drift = (p.drift * mask).sum(-1, keepdim=True) / lengths
        dropped = (p.by_token < 0) & (drift > p.off_policy_mask_threshold)
        factors = factors * (~dropped).to(factors.dtype)
    return factors


def _geometric_mean(p: Inputs, mask: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Which log-ratios are not clipped, (B, T), and the mean of the ratios with their clips, (B, 1)."""
    log_ratio, advantages = p.log_ratio, p.by_token.expand_as(mask)
    rising = (advantages > 0) & (log_ratio < p.epsilon_high)
    falling = (advantages < 0) & (log_ratio > -p.epsilon_low)
    clipped = by_branch(log_ratio, advantages, -p.epsilon_low, p.epsilon_high)
    return mask * (rising | falling), torch.exp((clipped * mask).sum(-1, keepdim=True) / lengths)


def _phi(p: Inputs, mask: Tensor) -> Tensor:
    log_weight = (p.log_weights * mask).sum(-1, keepdim=True).clamp(LOWEST, HIGHEST)
    return torch.exp(p.lam + p.k * log_weight - p.lam * log_weight.exp())


@style
def closed_form(p: Inputs) -> Tensor:
    """No automatic differentiation: the gradient in closed form, as fused kernels have it."""
    return _ClosedForm.apply(p.logps, replace(p, logps=p.logps.detach()))
