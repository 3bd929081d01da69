"""The losses as a trainer writes them in PyTorch: whole tensors, the mask multiplied in at the end."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from cases.case import Case
from cases.dtypes import FloatArray
from cases.spec import Level, LossSpec, LossType
from harness.outcome import Outcome


def outcome_of(case: Case) -> Outcome:
    """Loss and gradient of a case, computed in its dtype."""
    batch = case.batch
    dtype = getattr(torch, batch.dtype.name)
    tensor = partial(_tensor, dtype=dtype)
    logps = torch.tensor(batch.logps, dtype=dtype, requires_grad=True)
    per_token = _token_losses(
        case.spec,
        logps,
        tensor(batch.old_logps),
        tensor(batch.ref_logps),
        tensor(batch.advantages),
        tensor(batch.mask),
    )
    loss = _aggregate(case.spec, per_token, tensor(batch.mask))
    (gradient,) = torch.autograd.grad(loss, logps)
    return Outcome("ok", loss.item(), gradient.double().numpy())


def _tensor(values: FloatArray | None, dtype: torch.dtype) -> Tensor | None:
    return None if values is None else torch.tensor(values, dtype=dtype)


def _token_losses(
    spec: LossSpec, logps: Tensor, old_logps: Tensor | None, ref_logps: Tensor, advantages: Tensor, mask: Tensor
) -> Tensor:
    log_ratio = logps - (logps.detach() if old_logps is None else old_logps)
    if spec.importance_sampling_level is Level.SEQUENCE:
        log_ratio = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    ratio = log_ratio.exp()
    if advantages.ndim == 1:
        advantages = advantages.unsqueeze(1)
    if spec.loss_type is LossType.CISPO:
        losses = -(ratio.clamp(max=spec.epsilon_high).detach() * advantages * logps)
    else:
        clipped = ratio.clamp(1 - spec.epsilon_low, 1 + spec.epsilon_high)
        losses = -torch.min(ratio * advantages, clipped * advantages)
    if spec.beta:
        x = ref_logps - logps
        losses = losses + spec.beta * (x.exp() - x - 1)
    return losses * mask


def _aggregate(spec: LossSpec, losses: Tensor, mask: Tensor) -> Tensor:
    if spec.loss_type is LossType.GRPO:
        return (losses.sum(-1) / mask.sum(-1).clamp(min=1)).mean()
    if spec.loss_type is LossType.DR_GRPO:
        return losses.sum() / (mask.size(0) * spec.max_completion_length)
    return losses.sum() / mask.sum().clamp(min=1)
