"""The arguments that every style takes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

MEANS_OF_ROWS = ("grpo", "sapo", "gmpo")
"""Losses that are a mean over completions of the means over their tokens."""

PLAIN = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo")
"""Losses of the styles that have no options."""

LOWEST, HIGHEST = math.log(1e-8), 20.0
"""Where vespo clips logarithms."""


@dataclass(frozen=True)
class Inputs:
    """The arguments of a loss.

    `logps`, `old_logps` (None on-policy), `ref_logps`, `sampling_logps` (or None) and `mask` are (B, T),
    `advantages` is (B,) or (B, T), `importance_ratio` (B, T), (B, 1) or None.
    """

    logps: Tensor
    old_logps: Tensor | None
    ref_logps: Tensor | None
    advantages: Tensor
    mask: Tensor
    sampling_logps: Tensor | None
    importance_ratio: Tensor | None
    loss_type: str
    importance_sampling_level: str
    beta: float
    epsilon_low: float
    epsilon_high: float
    delta: float | None
    off_policy_mask_threshold: float | None
    kl_estimator: str
    max_completion_length: int
    sapo_temperature_pos: float
    sapo_temperature_neg: float
    vespo_k_pos: float
    vespo_lambda_pos: float
    vespo_k_neg: float
    vespo_lambda_neg: float

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
    def drift(self) -> Tensor:
        """log pi_sampling - log pi without gradient, (B, T)."""
        old = self.logps if self.old_logps is None else self.old_logps
        return ((old if self.sampling_logps is None else self.sampling_logps) - self.logps).detach()

    @property
    def by_token(self) -> Tensor:
        """Advantages (B, T), or (B, 1)."""
        return self.advantages if self.advantages.dim() == 2 else self.advantages[:, None]

    @property
    def factor(self) -> Tensor | None:
        """What multiplies the policy term: the importance ratio, which for vespo is in the log-weights."""
        return None if self.loss_type == "vespo" else self.importance_ratio

    @property
    def per_sequence(self) -> bool:
        return self.importance_sampling_level == "sequence"

    @property
    def corrects_bias(self) -> bool:
        return self.kl_estimator == "k3_bias_corrected"

    def estimated(self, x: Tensor, k3: Tensor) -> Tensor:
        """The KL term without a correction of its bias: k1 or k2 of x, or k3 as a style has it."""
        if self.kl_estimator == "k1":
            return -x
        return x * x / 2 if self.kl_estimator == "k2" else k3

    @property
    def low(self) -> float:
        return 1 - self.epsilon_low

    @property
    def high(self) -> float:
        """Upper bound of the ratio, which is absolute for cispo."""
        return self.epsilon_high if self.loss_type == "cispo" else 1 + self.epsilon_high

    @property
    def tau(self) -> Tensor:
        """sapo's temperatures, in the shape of the advantages by token."""
        return self._chosen(self.by_token > 0, self.sapo_temperature_pos, self.sapo_temperature_neg)

    @property
    def k(self) -> Tensor:
        return self._chosen(self.by_token >= 0, self.vespo_k_pos, self.vespo_k_neg)

    @property
    def lam(self) -> Tensor:
        return self._chosen(self.by_token >= 0, self.vespo_lambda_pos, self.vespo_lambda_neg)

    def _chosen(self, condition: Tensor, yes: float, no: float) -> Tensor:
        # Tensors: of two Python numbers, torch.where makes float32.
        return torch.where(condition, self.logps.new_full((), yes), self.logps.new_full((), no))

    @property
    def log_weights(self) -> Tensor:
        """The terms of vespo's log W of each completion, (B, T), without gradient."""
        terms = self.log_ratio.detach().clamp(-HIGHEST, HIGHEST)
        if self.importance_ratio is None:
            return terms
        return terms + torch.log(self.importance_ratio).clamp(LOWEST, HIGHEST)

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
        sampling_logps: Tensor | None,
        importance_ratio: Tensor | None,
        loss_type: str,
        importance_sampling_level: str,
        beta: float,
        epsilon_low: float,
        epsilon_high: float,
        delta: float | None,
        off_policy_mask_threshold: float | None,
        kl_estimator: str,
        max_completion_length: int,
        sapo_temperature_pos: float,
        sapo_temperature_neg: float,
        vespo_k_pos: float,
        vespo_lambda_pos: float,
        vespo_k_neg: float,
        vespo_lambda_neg: float,
    ) -> Tensor:
        arguments = locals()
        return loss(Inputs(**{field.name: arguments[field.name] for field in fields(Inputs)}))

    function.__doc__ = loss.__doc__
    return function


def plain_style(loss: Callable[[Inputs], Tensor]) -> Callable[..., Tensor]:
    """A style that has five losses and no options."""

    @functools.wraps(loss)
    def without_options(p: Inputs) -> Tensor:
        options = (p.delta, p.off_policy_mask_threshold, p.importance_ratio)
        if p.loss_type not in PLAIN or p.kl_estimator != "k3" or any(option is not None for option in options):
            raise NotImplementedError(f"this style has {', '.join(PLAIN)} without options")
        return loss(p)

    return style(without_options)
