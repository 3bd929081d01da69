"""Correct implementations of all losses under all conventions, in the wordings of libraries."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cases.case import Case
from cases.conventions import CispoClip, Conventions, EmptyRows, KLAggregation, KLBounded, SequenceGradient
from cases.dtypes import FloatArray
from harness.outcome import Outcome
from tests.styles.geometric import by_branch, by_minimum, by_sign
from tests.styles.inputs import HIGHEST, LOWEST, MEANS_OF_ROWS, Inputs
from tests.styles.wordings import Wording, bounded


@dataclass(frozen=True)
class Settled(Inputs):
    """The arguments of a loss, what its conventions are, and how it is worded."""

    conventions: Conventions
    wording: Wording

    def within(self, values: Tensor, low: float | None, high: float | None) -> Tensor:
        """The values between two bounds."""
        return bounded(values, low, high, self.wording.bounds)


def outcome_of(case: Case, wording: Wording) -> Outcome:
    """Loss and gradient of a case that is not split, computed in its dtype."""
    batch, spec = case.batch, case.spec
    dtype = getattr(torch, batch.dtype.name)

    def tensor(values: FloatArray | None) -> Tensor | None:
        return None if values is None else torch.tensor(values, dtype=dtype)

    logps = torch.tensor(batch.logps, dtype=dtype, requires_grad=True)
    names = [name for name in Inputs.__dataclass_fields__ if hasattr(spec, name)]
    advantages = tensor(batch.advantages)
    assert advantages is not None
    p: Inputs = Settled(
        logps=logps,
        old_logps=tensor(batch.old_logps),
        ref_logps=tensor(batch.ref_logps),
        advantages=advantages,
        mask=torch.tensor(batch.mask),
        sampling_logps=tensor(batch.sampling_logps),
        importance_ratio=tensor(batch.importance_ratio),
        conventions=spec.conventions,
        wording=wording,
        **{name: getattr(spec, name) for name in names},
    )
    if wording.internals == "float32" and dtype != torch.float64:
        p = p.in_dtype(torch.float32)
    assert isinstance(p, Settled)
    value = loss(p).to(dtype)
    (gradient,) = torch.autograd.grad(value, logps)
    return Outcome("ok", value.item(), gradient.double().numpy())


def loss(p: Settled) -> Tensor:
    """The loss of a batch in one piece."""
    ratio = _ratio(p)
    policy = _gmpo(p) if p.loss_type == "gmpo" else _policy(p, ratio)
    if p.factor is not None:
        policy = policy * p.factor
    if p.off_policy_mask_threshold is not None:
        policy = torch.where(_dropped(p), torch.zeros_like(policy), policy)
    policy = policy.expand_as(p.logps)
    if not p.beta:
        return _aggregated(p, policy)
    kl = _kl(p, ratio)
    if p.conventions.kl_aggregation is KLAggregation.TOKEN_MEAN:
        return _aggregated(p, policy) + p.beta * _token_mean(p, kl)
    return _aggregated(p, policy + p.beta * kl)


def _masked_mean(p: Settled, values: Tensor) -> Tensor:
    """The mean over the tokens of each completion, (B, 1)."""
    return torch.where(p.mask, values, 0.0).sum(-1, keepdim=True) / p.mask.sum(-1, keepdim=True).clamp(min=1)


def _ratio(p: Settled) -> Tensor:
    low, high = p.conventions.log_ratio_bounds
    if not p.per_sequence:
        return p.within(p.log_ratio, low, high).exp()
    mean = _masked_mean(p, p.log_ratio)
    if p.conventions.sequence_gradient is SequenceGradient.COMPLETION:
        return p.within(mean, low, high).exp()
    constant = mean.detach()
    if p.wording.own_ratio == "sum":
        return p.within(p.logps - p.logps.detach() + constant, low, high).exp()
    held = p.within(constant, low, high)
    one = (p.logps - p.logps.detach()).exp()
    return held.exp() * torch.where(held == constant, one, torch.ones_like(one))


def _policy(p: Settled, ratio: Tensor) -> Tensor:
    advantages = p.by_token
    if p.loss_type == "cispo":
        low = p.low if p.conventions.cispo_clip is CispoClip.TWO_SIDED else None
        return -p.within(ratio, low, p.high).detach() * advantages * p.logps
    if p.loss_type == "vespo":
        log_weight = torch.where(p.mask, p.log_weights, 0.0).sum(-1, keepdim=True).clamp(LOWEST, HIGHEST)
        phi = torch.exp(p.lam + p.k * log_weight - p.lam * torch.exp(log_weight))
        return -phi * advantages * p.logps
    if p.loss_type == "sapo":
        return -torch.sigmoid(p.tau * (ratio - 1)) * (4 / p.tau) * advantages
    return _clipped(p, ratio)


def _clipped(p: Settled, ratio: Tensor) -> Tensor:
    advantages, dual = p.by_token, p.conventions.dual_clip
    if dual is not None and p.wording.dual_clip == "ratio":
        ratio = torch.where(advantages < 0, p.within(ratio, None, dual), ratio)
    first = p.within(ratio, None, p.delta)
    clipped = p.within(ratio, p.low, p.high)
    if p.wording.surrogate == "min":
        losses = -torch.min(first * advantages, clipped * advantages)
    elif p.wording.surrogate == "max":
        losses = torch.max(-advantages * first, -advantages * clipped)
    else:
        highest = p.high if p.delta is None else min(p.delta, p.high)
        rises = p.within(ratio, None, highest)
        falls = p.within(ratio, p.low, None if p.delta is None else max(p.delta, p.high))
        losses = -advantages * torch.where(advantages > 0, rises, falls)
    if dual is None or p.wording.dual_clip == "ratio":
        return losses
    if p.wording.dual_clip == "larger":
        return -torch.where(advantages < 0, torch.max(-losses, dual * advantages), -losses)
    return torch.where(advantages < 0, torch.min(losses, -advantages * dual), losses)


def _gmpo(p: Settled) -> Tensor:
    low, high = p.conventions.log_ratio_bounds
    log_ratio = p.within(p.log_ratio, low, high)
    clip = {"sign": by_sign, "where": by_branch, "minimum": by_minimum}[p.wording.gmpo]
    clipped = clip(log_ratio, p.by_token, -p.epsilon_low, p.epsilon_high)
    whole = torch.where(p.mask, clipped, torch.zeros_like(clipped)).sum(-1, keepdim=True)
    return -torch.exp(whole / _lengths(p)) * p.by_token


def _dropped(p: Settled) -> Tensor:
    return (p.by_token < 0) & (_masked_mean(p, p.drift) > p.off_policy_mask_threshold)


def _kl(p: Settled, ratio: Tensor) -> Tensor:
    polynomial = p.kl_estimator in ("k1", "k2")
    free = polynomial and p.conventions.kl_bounded is KLBounded.EXPONENTIAL
    bound = None if free else p.conventions.kl_log_ratio_bound
    x = p.ref_log_ratio if bound is None else p.within(p.ref_log_ratio, -bound, bound)
    squares = p.wording.kl == "exp"
    if p.kl_estimator == "k1":
        kl = -x
    elif p.kl_estimator == "k2":
        kl = x.square() * 0.5 if squares else (-x) * (-x) / 2
    else:
        kl = torch.exp(x) - x - 1 if squares else torch.expm1(x) - x
    kl = kl * ratio if p.corrects_bias else kl
    bound = None if free else p.conventions.kl_bound
    return kl if bound is None else p.within(kl, -bound, bound)


def _divisor(p: Settled, count: Tensor) -> Tensor:
    """A count of tokens with the epsilon."""
    epsilon, dtype = p.conventions.denominator_epsilon, p.logps.dtype
    if p.wording.divisor == "number":
        return (count.clamp(min=1).double() + epsilon).to(dtype)
    return count.clamp(min=1).to(dtype) + epsilon


def _lengths(p: Settled) -> Tensor:
    return _divisor(p, p.mask.sum(-1, keepdim=True))


def _token_mean(p: Settled, values: Tensor) -> Tensor:
    kept = torch.where(p.mask, values, torch.zeros_like(values))
    if p.wording.divisor == "weights":
        return (kept * (1 / _divisor(p, p.mask.sum()))).sum()
    return kept.sum() / _divisor(p, p.mask.sum())


def _aggregated(p: Settled, values: Tensor) -> Tensor:
    kept = torch.where(p.mask, values, torch.zeros_like(values))
    rows = len(p.mask)
    if p.conventions.empty_rows is EmptyRows.NOT_COUNTED:
        rows = max(int(p.mask.any(-1).sum()), 1)
    if p.loss_type in MEANS_OF_ROWS:
        if p.wording.divisor == "weights":
            return (kept * (1 / (_lengths(p) * rows))).sum()
        return (kept.sum(-1) / _lengths(p)[:, 0]).sum() / rows
    if p.loss_type == "luspo":
        return kept.sum(-1).sum() / rows
    if p.loss_type == "dr_grpo":
        return kept.sum() / (rows * p.max_completion_length)
    return _token_mean(p, values)
