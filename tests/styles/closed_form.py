"""A correct implementation without automatic differentiation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.styles.inputs import Inputs, style


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
    if p.loss_type == "grpo":
        weights = mask / (len(mask) * lengths)
    elif p.loss_type == "dr_grpo":
        weights = mask / (len(mask) * p.max_completion_length)
    else:
        weights = mask / mask.sum().clamp(min=1)
    advantages = p.by_token.expand_as(mask)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = ((log_ratio * mask).sum(-1, keepdim=True) / lengths).expand_as(mask)
    ratio = log_ratio.exp()
    if p.loss_type == "cispo":
        slope = -ratio.clamp(max=p.high) * advantages
        losses = slope * p.logps
        gradient = weights * slope
    else:
        losses = -torch.min(ratio * advantages, ratio.clamp(p.low, p.high) * advantages)
        active = ((advantages > 0) & (ratio < p.high)) | ((advantages < 0) & (ratio > p.low))
        slope = torch.where(active, -advantages, torch.zeros_like(advantages))
        if p.per_sequence:
            # Every token moves the ratio of its completion by 1 / length.
            gradient = mask / lengths * ratio * (weights * slope).sum(-1, keepdim=True)
        else:
            gradient = weights * (slope * ratio)
    if p.beta:
        x = p.ref_log_ratio
        losses = losses + p.beta * (x.exp() - x - 1)
        gradient = gradient + p.beta * weights * (1 - x.exp())
    return (weights * losses).sum(), gradient


@style
def closed_form(p: Inputs) -> Tensor:
    """No automatic differentiation: the gradient in closed form, as fused kernels have it."""
    return _ClosedForm.apply(p.logps, replace(p, logps=p.logps.detach()))
