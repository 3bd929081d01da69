"""A correct implementation on packed tokens, which sums from the last to the first."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.styles.inputs import Inputs, plain_style


@plain_style
def reversed_summation(p: Inputs) -> Tensor:
    """Tokens packed completion by completion, without padding; every sum runs from the last term to the first."""
    completions = []
    for row in range(len(p.mask)):
        kept = p.mask[row].nonzero()[:, 0]
        if len(kept):
            completions.append(_packed_losses(p, row, kept))
    if not completions:
        return (p.logps * 0).sum()
    if p.loss_type == "grpo":
        means = torch.stack([_from_last_to_first(losses) / len(losses) for losses in completions])
        return _from_last_to_first(means) / len(p.mask)
    total = _from_last_to_first(torch.cat(completions))
    if p.loss_type == "dr_grpo":
        return total / (len(p.mask) * p.max_completion_length)
    return total / sum(map(len, completions))


def _packed_losses(p: Inputs, row: int, kept: Tensor) -> Tensor:
    logps = p.logps[row, kept]
    advantages = p.by_token[row].expand(p.mask.shape[1])[kept]
    log_ratio = p.log_ratio[row, kept]
    if p.per_sequence:
        log_ratio = (_from_last_to_first(log_ratio) / len(kept)).expand(len(kept))
    ratio = torch.exp(log_ratio)
    if p.loss_type == "cispo":
        losses = -(ratio.clamp(max=p.high).detach() * logps * advantages)
    else:
        losses = torch.max(-(advantages * ratio), -(advantages * ratio.clamp(p.low, p.high)))
    if p.beta:
        x = p.ref_log_ratio[row, kept]
        losses = p.beta * (-1 - x + x.exp()) + losses
    return losses


def _from_last_to_first(values: Tensor) -> Tensor:
    """Half types are accumulated in float32 and stored again."""
    wide = values if values.dtype == torch.float64 else values.float()
    total = wide[-1]
    for value in wide[:-1].flip(0):
        total = total + value
    return total.to(values.dtype)
