"""Correct implementations of the five losses, each in a style of its own, to be reached as `module:function`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tests.styles.inputs import Inputs, style


@style
def mask_multiply(p: Inputs) -> Tensor:
    """Everything (B, T), padding multiplied by 0, `torch.min` of the two surrogates; as TRL does it."""
    mask = p.mask.to(p.logps.dtype)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    ratio = torch.exp(log_ratio)
    if p.loss_type == "cispo":
        losses = -torch.clamp(ratio, max=p.high).detach() * p.by_token * p.logps
    else:
        losses = -torch.min(ratio * p.by_token, torch.clamp(ratio, p.low, p.high) * p.by_token)
    if p.beta:
        x = p.ref_log_ratio
        losses = losses + p.beta * (torch.exp(x) - x - 1)
    if p.loss_type == "grpo":
        return ((losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    if p.loss_type == "dr_grpo":
        return (losses * mask).sum() / (mask.shape[0] * p.max_completion_length)
    return (losses * mask).sum() / mask.sum().clamp(min=1)


@style
def where(p: Inputs) -> Tensor:
    """Branches by the sign of the advantage and by the mask, with `torch.where`; k3 by `expm1`."""
    zero = torch.zeros_like(p.logps)
    lengths = p.mask.sum(-1)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = torch.where(p.mask, log_ratio, zero).sum(-1) / torch.where(lengths > 0, lengths, 1)
        log_ratio = log_ratio[:, None]
    ratio = torch.exp(log_ratio)
    # Tensors: of two Python numbers, torch.where makes float32.
    low, high = ratio.new_full((), p.low), ratio.new_full((), p.high)
    capped = torch.where(ratio < high, ratio, high)
    if p.loss_type == "cispo":
        losses = -(capped.detach() * p.by_token) * p.logps
    else:
        raised = torch.where(ratio > low, ratio, low)
        losses = -p.by_token * torch.where(p.by_token > 0, capped, raised)
    losses = torch.where(p.mask, losses, zero)
    if p.beta:
        x = torch.where(p.mask, p.ref_log_ratio, zero)
        losses = losses + p.beta * (torch.expm1(x) - x)
    if p.loss_type == "grpo":
        some = lengths > 0
        means = losses.sum(-1) / torch.where(some, lengths, 1)
        return torch.where(some, means, torch.zeros_like(means)).sum() / len(lengths)
    if p.loss_type == "dr_grpo":
        return losses.sum() / p.max_completion_length / len(lengths)
    return losses.sum() / max(int(lengths.sum()), 1)


@style
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


@style
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


@style
def weights_folded(p: Inputs) -> Tensor:
    """The normaliser is a weight of every token, multiplied in before one sum over all of them."""
    mask = p.mask.to(p.logps.dtype)
    lengths = mask.sum(1, keepdim=True).clamp(min=1)
    if p.loss_type == "grpo":
        weights = mask / lengths / len(mask)
    elif p.loss_type == "dr_grpo":
        weights = mask / p.max_completion_length / len(mask)
    else:
        weights = mask * (1 / mask.sum().clamp(min=1))
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (log_ratio * (mask / lengths)).sum(1, keepdim=True)
    ratio = log_ratio.exp()
    if p.loss_type == "cispo":
        losses = weights * -(ratio.clamp(max=p.high).detach() * p.by_token * p.logps)
    else:
        losses = weights * -torch.min(ratio * p.by_token, ratio.clamp(p.low, p.high) * p.by_token)
    if p.beta:
        x = p.ref_log_ratio
        losses = losses + (p.beta * weights) * (x.exp() - x - 1)
    return losses.sum()


@style
def split_kl(p: Inputs) -> Tensor:
    """The larger of the negated surrogates; policy and KL term are aggregated apart and added last, as in verl."""
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (torch.where(p.mask, log_ratio, 0.0).sum(-1) / p.mask.sum(-1).clamp(min=1)).unsqueeze(-1)
    ratio = torch.exp(log_ratio)
    if p.loss_type == "cispo":
        policy = -p.by_token * torch.clamp(ratio, max=p.high).detach() * p.logps
    else:
        policy = torch.maximum(-p.by_token * ratio, -p.by_token * torch.clamp(ratio, p.low, p.high))
    loss = _aggregated(policy.expand_as(p.logps), p)
    if p.beta:
        x = p.ref_log_ratio
        loss = loss + _aggregated(torch.exp(x) - x - 1, p) * p.beta
    return loss


def _aggregated(values: Tensor, p: Inputs) -> Tensor:
    masked = torch.where(p.mask, values, 0.0)
    if p.loss_type == "grpo":
        return torch.mean(masked.sum(-1) / p.mask.sum(-1).clamp(min=1))
    if p.loss_type == "dr_grpo":
        return torch.mean(masked.sum(-1) / p.max_completion_length)
    return masked.sum() / p.mask.sum().clamp(min=1)
