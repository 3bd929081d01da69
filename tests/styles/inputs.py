"""The arguments that every style takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Inputs:
    """The arguments of a loss.

    `logps`, `old_logps` (None on-policy), `ref_logps` and `mask` are (B, T), `advantages` is (B,) or (B, T).
    """

    logps: Tensor
    old_logps: Tensor | None
    ref_logps: Tensor | None
    advantages: Tensor
    mask: Tensor
    loss_type: str
    importance_sampling_level: str
    beta: float
    epsilon_low: float
    epsilon_high: float
    max_completion_length: int

    @property
    def log_ratio(self) -> Tensor:
        """log pi - log pi_old, (B, T)."""
        return self.logps - (self.logps.detach() if self.old_logps is None else self.old_logps)

    @property
    def ref_log_ratio(self) -> Tensor:
        """log pi_ref - log pi, (B, T)."""
        assert self.ref_logps is not None, "beta is not 0"
        return self.ref_logps - self.logps

    @property
    def by_token(self) -> Tensor:
        """Advantages (B, T), or (B, 1)."""
        return self.advantages if self.advantages.dim() == 2 else self.advantages[:, None]

    @property
    def per_sequence(self) -> bool:
        return self.importance_sampling_level == "sequence"

    @property
    def low(self) -> float:
        return 1 - self.epsilon_low

    @property
    def high(self) -> float:
        """Upper bound of the ratio, which is absolute for cispo."""
        return self.epsilon_high if self.loss_type == "cispo" else 1 + self.epsilon_high

    def in_dtype(self, dtype: torch.dtype) -> Inputs:
        """All floating-point tensors converted."""
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{
            name: tensor.to(dtype)
            for name, tensor in tensors.items()
            if isinstance(tensor, Tensor) and tensor.is_floating_point()
        })  # fmt: skip


def style(loss: Callable[[Inputs], Tensor]) -> Callable[..., Tensor]:
    """The loss as a function of named arguments."""

    def function(
        logps: Tensor,
        old_logps: Tensor | None,
        ref_logps: Tensor | None,
        advantages: Tensor,
        mask: Tensor,
        loss_type: str,
        importance_sampling_level: str,
        beta: float,
        epsilon_low: float,
        epsilon_high: float,
        max_completion_length: int,
    ) -> Tensor:
        return loss(
            Inputs(
                logps,
                old_logps,
                ref_logps,
                advantages,
                mask,
                loss_type,
                importance_sampling_level,
                beta,
                epsilon_low,
                epsilon_high,
                max_completion_length,
            )
        )

    function.__doc__ = loss.__doc__
    return function
