"""Small cases that show what a library does where no name in it tells."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .target import Spec, Split, TensorCase


def probe(
    loss_type: str, level: str, mask: Sequence[Sequence[int]], advantage: float = 1.0, log_ratio: float = 0.0
) -> TensorCase:
    """A case of float64 numbers that are the same for all tokens, without KL term."""
    kept = torch.tensor(mask, dtype=torch.bool)
    old = torch.full(kept.shape, -1.0, dtype=torch.float64)
    return TensorCase(
        dtype=torch.float64,
        device=kept.device,
        logps=(old + log_ratio).requires_grad_(),
        old_logps=old,
        ref_logps=None,
        advantages=torch.full((len(mask),), advantage, dtype=torch.float64),
        mask=kept,
        spec=Spec(loss_type, level, 0.0, 0.2, 0.2, max_completion_length=kept.shape[1]),
        split=Split(),
    )
