"""Correct implementations of the five losses without options."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tests.styles.inputs import Inputs, plain_style


@plain_style
def log_space_clip(p: Inputs) -> Tensor:
    """The log-ratio is clamped to the logarithms of the bounds, before the exponential."""
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (log_ratio * p.mask).sum(-1) / p.mask.sum(-1).clamp(min=1)
        log_ratio = log_ratio.unsqueeze(-1)
    if p.loss_type == "cispo":
        weight = torch.exp(log_ratio.clamp(max=math.log(p.high))).detach()
        policy = weight * p.by_token * p.logps
    else:
        clipped = torch.exp(log_ratio.clamp(math.log(p.low), math.log(p.high)))
        policy = torch.minimum(torch.exp(log_ratio) * p.by_token, clipped * p.by_token)
    losses = -policy.expand_as(p.logps)
    if p.beta:
        x = p.ref_log_ratio
        losses = losses + (torch.exp(x) - 1 - x) * p.beta
    kept = losses.masked_fill(~p.mask, 0.0)
    if p.loss_type == "grpo":
        return (kept.sum(1) / p.mask.sum(1).clamp(min=1)).mean(0)
    if p.loss_type == "dr_grpo":
        return kept.sum() / (kept.shape[0] * p.max_completion_length)
    return kept.sum() / p.mask.sum().clamp(min=1)


@plain_style
def float32_internals(p: Inputs) -> Tensor:
    """Half types are computed in float32 and the loss rounded at the end; sums are matrix products."""
    wide = p if p.logps.dtype == torch.float64 else p.in_dtype(torch.float32)
    mask = wide.mask.to(wide.logps.dtype)
    lengths = mask.sum(-1).clamp(min=1)
    log_ratio = wide.log_ratio
    if p.per_sequence:
        log_ratio = (torch.einsum("bt,bt->b", log_ratio, mask) / lengths)[:, None]
    ratio = log_ratio.exp()
    if p.loss_type == "cispo":
        losses = -ratio.detach().clamp(max=p.high) * wide.by_token * wide.logps
    else:
        losses = -torch.min(ratio * wide.by_token, ratio.clamp(p.low, p.high) * wide.by_token)
    losses = losses.expand_as(mask)
    if p.beta:
        x = wide.ref_log_ratio
        losses = losses + p.beta * (x.exp() - x - 1)
    if p.loss_type == "grpo":
        loss = torch.einsum("bt,bt,b->", losses, mask, 1 / lengths) / len(mask)
    else:
        count = mask.sum().clamp(min=1) if p.loss_type != "dr_grpo" else len(mask) * p.max_completion_length
        loss = torch.dot(losses.flatten(), mask.flatten()) / count
    return loss.to(p.logps.dtype)
