"""Correct implementations of all losses and options, each in a style of its own, reached as `module:function`."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.styles.geometric import by_branch, by_minimum, by_sign
from tests.styles.inputs import HIGHEST, LOWEST, MEANS_OF_ROWS, Inputs, style


@style
def mask_multiply(p: Inputs) -> Tensor:
    """Everything (B, T), padding multiplied by 0, `torch.min` of the two surrogates; as TRL does it."""
    mask = p.mask.to(p.logps.dtype)
    lengths = mask.sum(-1, keepdim=True).clamp(min=1)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (log_ratio * mask).sum(-1, keepdim=True) / lengths
    ratio = torch.exp(log_ratio)
    if p.loss_type == "cispo":
        losses = -torch.clamp(ratio, max=p.high).detach() * p.by_token * p.logps
    elif p.loss_type == "sapo":
        losses = -torch.sigmoid(p.tau * (ratio - 1)) * 4 / p.tau * p.by_token
    elif p.loss_type == "vespo":
        log_weight = (p.log_weights * mask).sum(-1, keepdim=True).clamp(LOWEST, HIGHEST)
        phi = torch.exp(p.lam + p.k * log_weight - p.lam * torch.exp(log_weight))
        losses = -phi * p.by_token * p.logps
    elif p.loss_type == "gmpo":
        clipped = by_sign(p.log_ratio, p.by_token, -p.epsilon_low, p.epsilon_high)
        losses = -torch.exp((clipped * mask).sum(-1, keepdim=True) / lengths) * p.by_token
    else:
        first = ratio if p.delta is None else torch.clamp(ratio, max=p.delta)
        losses = -torch.min(first * p.by_token, torch.clamp(ratio, p.low, p.high) * p.by_token)
    if p.off_policy_mask_threshold is not None:
        drift = (p.drift * mask).sum(-1, keepdim=True) / lengths
        dropped = (p.by_token < 0) & (drift > p.off_policy_mask_threshold)
        losses = losses * (~dropped).to(losses.dtype)
    if p.factor is not None:
        losses = losses * p.factor
    if p.beta:
        x = p.ref_log_ratio
        kl = p.estimated(x, torch.exp(x) - x - 1)
        losses = losses + p.beta * (kl * ratio if p.corrects_bias else kl)
    if p.loss_type in MEANS_OF_ROWS:
        return ((losses * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    if p.loss_type == "luspo":
        return (losses * mask).sum(-1).mean()
    if p.loss_type == "dr_grpo":
        return (losses * mask).sum() / (mask.shape[0] * p.max_completion_length)
    return (losses * mask).sum() / mask.sum().clamp(min=1)


@style
def where(p: Inputs) -> Tensor:
    """Branches by the sign of the advantage and by the mask, with `torch.where`; k3 by `expm1`."""
    zero = torch.zeros_like(p.logps)
    lengths = p.mask.sum(-1)
    divisor = torch.where(lengths > 0, lengths, 1)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (torch.where(p.mask, log_ratio, zero).sum(-1) / divisor)[:, None]
    ratio = torch.exp(log_ratio)
    # Tensors: of two Python numbers, torch.where makes float32.
    low, high = ratio.new_full((), p.low), ratio.new_full((), p.high)
    capped = torch.where(ratio < high, ratio, high)
    if p.loss_type == "cispo":
        losses = -(capped.detach() * p.by_token) * p.logps
    elif p.loss_type == "sapo":
        losses = -(4 * p.by_token / p.tau) * torch.sigmoid(p.tau * ratio - p.tau)
    elif p.loss_type == "vespo":
        total = torch.where(p.mask, p.log_weights, zero).sum(-1)[:, None].clamp(LOWEST, HIGHEST)
        phi = torch.exp(p.k * total + p.lam * (1 - torch.exp(total)))
        losses = -(phi * p.by_token) * p.logps
    elif p.loss_type == "gmpo":
        clipped = by_branch(p.log_ratio, p.by_token, -p.epsilon_low, p.epsilon_high)
        mean = torch.where(p.mask, clipped, zero).sum(-1) / divisor
        losses = -(p.by_token * torch.exp(mean)[:, None])
    else:
        raised = torch.where(ratio > low, ratio, low)
        if p.delta is not None:
            # The second bound acts below the first on one side, and above it on the other.
            capped = capped.clamp(max=p.delta)
            raised = raised.clamp(max=max(p.delta, p.high))
        losses = -p.by_token * torch.where(p.by_token > 0, capped, raised)
    if p.factor is not None:
        losses = losses * p.factor
    if p.off_policy_mask_threshold is not None:
        drift = (torch.where(p.mask, p.drift, zero).sum(-1) / divisor)[:, None]
        losses = torch.where((p.by_token >= 0) | (drift <= p.off_policy_mask_threshold), losses, zero)
    losses = torch.where(p.mask, losses, zero)
    if p.beta:
        x = torch.where(p.mask, p.ref_log_ratio, zero)
        kl = p.estimated(x, torch.expm1(x) - x)
        if p.corrects_bias:
            kl = torch.where(p.mask, ratio, zero) * kl
        losses = losses + p.beta * kl
    if p.loss_type in MEANS_OF_ROWS:
        some = lengths > 0
        means = losses.sum(-1) / divisor
        return torch.where(some, means, torch.zeros_like(means)).sum() / len(lengths)
    if p.loss_type == "luspo":
        return losses.sum() / len(lengths)
    if p.loss_type == "dr_grpo":
        return losses.sum() / p.max_completion_length / len(lengths)
    return losses.sum() / max(int(lengths.sum()), 1)


@style
def weights_folded(p: Inputs) -> Tensor:
    """The normaliser is a weight of every token, multiplied in before one sum over all of them."""
    mask = p.mask.to(p.logps.dtype)
    lengths = mask.sum(1, keepdim=True).clamp(min=1)
    if p.loss_type in MEANS_OF_ROWS:
        weights = mask / lengths / len(mask)
    elif p.loss_type == "luspo":
        weights = mask / len(mask)
    elif p.loss_type == "dr_grpo":
        weights = mask / p.max_completion_length / len(mask)
    else:
        weights = mask * (1 / mask.sum().clamp(min=1))
    policy_weights = weights if p.factor is None else weights * p.factor
    if p.off_policy_mask_threshold is not None:
        drift = (p.drift * mask).sum(1, keepdim=True) / lengths
        kept = (p.by_token >= 0) | (drift <= p.off_policy_mask_threshold)
        policy_weights = policy_weights.masked_fill(~kept, 0.0)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (log_ratio * (mask / lengths)).sum(1, keepdim=True)
    ratio = log_ratio.exp()
    if p.loss_type == "cispo":
        losses = -(ratio.clamp(max=p.high).detach() * p.by_token * p.logps)
    elif p.loss_type == "sapo":
        losses = -((p.tau * (ratio - 1)).sigmoid() * p.by_token * (4 / p.tau))
    elif p.loss_type == "vespo":
        log_weight = (p.log_weights * mask).sum(1, keepdim=True).clamp(LOWEST, HIGHEST)
        exponent = p.lam - p.lam * log_weight.exp() + p.k * log_weight
        losses = -(exponent.exp() * p.logps * p.by_token)
    elif p.loss_type == "gmpo":
        clipped = by_minimum(p.log_ratio, p.by_token, -p.epsilon_low, p.epsilon_high)
        losses = -((clipped * (mask / lengths)).sum(1, keepdim=True).exp() * p.by_token)
    else:
        first = ratio if p.delta is None else ratio.clamp(max=p.delta)
        losses = -torch.min(first * p.by_token, ratio.clamp(p.low, p.high) * p.by_token)
    losses = policy_weights * losses
    if p.beta:
        x = p.ref_log_ratio
        kl_weights = p.beta * weights
        losses = losses + (kl_weights * ratio if p.corrects_bias else kl_weights) * p.estimated(x, x.exp() - x - 1)
    return losses.sum()


@style
def split_kl(p: Inputs) -> Tensor:
    """The larger of the negated surrogates; policy and KL term are aggregated apart and added last, as in verl."""
    divisor = p.mask.sum(-1).clamp(min=1)
    log_ratio = p.log_ratio
    if p.per_sequence:
        log_ratio = (torch.where(p.mask, log_ratio, 0.0).sum(-1) / divisor).unsqueeze(-1)
    ratio = torch.exp(log_ratio)
    if p.loss_type == "cispo":
        policy = -p.by_token * torch.clamp(ratio, max=p.high).detach() * p.logps
    elif p.loss_type == "sapo":
        policy = -p.by_token * (4 / p.tau * torch.sigmoid((ratio - 1) * p.tau))
    elif p.loss_type == "vespo":
        log_weight = p.log_weights.masked_fill(~p.mask, 0.0).sum(-1, keepdim=True).clamp(LOWEST, HIGHEST)
        policy = -p.by_token * torch.exp(p.lam - p.lam * log_weight.exp() + p.k * log_weight) * p.logps
    elif p.loss_type == "gmpo":
        clipped = by_sign(p.log_ratio, p.by_token, -p.epsilon_low, p.epsilon_high)
        whole = torch.where(p.mask, clipped, 0.0).sum(-1, keepdim=True)
        policy = -p.by_token * torch.exp(whole / divisor.unsqueeze(-1))
    else:
        first = ratio if p.delta is None else torch.clamp_max(ratio, p.delta)
        policy = torch.maximum(-p.by_token * first, -p.by_token * torch.clamp(ratio, p.low, p.high))
    policy = policy.expand_as(p.logps)
    if p.factor is not None:
        policy = p.factor * policy
    if p.off_policy_mask_threshold is not None:
        drift = p.drift.masked_fill(~p.mask, 0.0).sum(-1, keepdim=True) / divisor.unsqueeze(-1)
        policy = policy.masked_fill((p.by_token < 0) & (drift > p.off_policy_mask_threshold), 0.0)
    loss = _aggregated(policy, p)
    if p.beta:
        x = p.ref_log_ratio
        kl = p.estimated(x, torch.exp(x) - x - 1)
        loss = loss + _aggregated(kl * ratio if p.corrects_bias else kl, p) * p.beta
    return loss


def _aggregated(values: Tensor, p: Inputs) -> Tensor:
    masked = torch.where(p.mask, values, 0.0)
    if p.loss_type in MEANS_OF_ROWS:
        return torch.mean(masked.sum(-1) / p.mask.sum(-1).clamp(min=1))
    if p.loss_type == "luspo":
        return torch.mean(masked.sum(-1))
    if p.loss_type == "dr_grpo":
        return torch.mean(masked.sum(-1) / p.max_completion_length)
    return masked.sum() / p.mask.sum().clamp(min=1)
