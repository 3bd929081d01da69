"""Which loss is meant, with which hyper-parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from cases.conventions import USUAL, CispoClip, Conventions
from cases.fields import set_member, set_number, set_optional_number

LONGEST_COMPLETION = 2**31 - 1

_POSITIVE = (
    "sapo_temperature_pos",
    "sapo_temperature_neg",
    "vespo_k_pos",
    "vespo_lambda_pos",
    "vespo_k_neg",
    "vespo_lambda_neg",
)


class LossType(StrEnum):
    """Named losses; the aggregation and the surrogate follow from the name."""

    GRPO = "grpo"
    BNPO = "bnpo"
    DR_GRPO = "dr_grpo"
    DAPO = "dapo"
    CISPO = "cispo"
    SAPO = "sapo"
    LUSPO = "luspo"
    VESPO = "vespo"
    GMPO = "gmpo"

    @property
    def clips(self) -> bool:
        """Whether the policy term is the clipped surrogate of PPO."""
        return self not in (LossType.CISPO, LossType.SAPO, LossType.VESPO, LossType.GMPO)


class Level(StrEnum):
    """Importance-sampling level: one ratio a token, or one length-normalised ratio a completion (GSPO)."""

    TOKEN = "token"
    SEQUENCE = "sequence"


class KLEstimator(StrEnum):
    """How the KL divergence is estimated per token.

    k3 is $e^x - x - 1$ with $x$ = ref_logps - logps; bias-corrected, it is multiplied by the importance ratio,
    through which the gradient passes (DeepSeek-V3.2). k1 is $-x$ and k2 is $x^2 / 2$.

    Source: Schulman, Approximating KL Divergence, http://joschu.net/blog/kl-approx.html.
    """

    K3 = "k3"
    K3_BIAS_CORRECTED = "k3_bias_corrected"
    K1 = "k1"
    K2 = "k2"


@dataclass(frozen=True)
class LossSpec:
    """A loss with its hyper-parameters.

    * `beta >= 0`: coefficient of the KL term; `kl_estimator` says how it is estimated.
    * `epsilon_low` in (0, 1), `epsilon_high > 0`: the ratio is clipped to [1 - epsilon_low, 1 + epsilon_high].
      For `cispo`, `epsilon_high` is the absolute cap of the ratio, and `epsilon_low` is used only where a
      convention has a two-sided clip. For `gmpo`, the log-ratio is clipped, to [-epsilon_low, epsilon_high].
    * `delta > 0` or None: second upper bound of the ratio, which acts where the first does not (two-sided clip of
      INTELLECT-2); of the losses with a clipped surrogate.
    * `off_policy_mask_threshold` or None: a token with a negative advantage loses its policy term where the mean
      of `sampling_logps - logps` over its completion exceeds it (DeepSeek-V3.2).
    * `max_completion_length >= 1`: the constant normaliser of `dr_grpo`.
    * `sapo_temperature_pos`, `sapo_temperature_neg` > 0: of `sapo`, for advantages above 0 and others.
    * `vespo_k_pos`, `vespo_lambda_pos`, `vespo_k_neg`, `vespo_lambda_neg` > 0: of `vespo`, for advantages of at
      least 0 and others.

    Raises `ValueError` naming the field, what it got and what it takes.
    """

    loss_type: LossType
    importance_sampling_level: Level = Level.TOKEN
    beta: float = 0.0
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    delta: float | None = None
    off_policy_mask_threshold: float | None = None
    kl_estimator: KLEstimator = KLEstimator.K3
    max_completion_length: int = 256
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    conventions: Conventions = USUAL

    def __post_init__(self) -> None:
        set_member(self, "loss_type", LossType)
        set_member(self, "importance_sampling_level", Level)
        set_number(self, "beta", lambda beta: beta >= 0, "a number of at least 0")
        set_number(self, "epsilon_low", lambda epsilon: 0 < epsilon < 1, "a number between 0 and 1")
        set_member(self, "kl_estimator", KLEstimator)
        set_number(self, "epsilon_high", lambda epsilon: epsilon > 0, "a number above 0")
        for name in _POSITIVE:
            set_number(self, name, lambda value: value > 0, "a number above 0")
        set_optional_number(self, "delta", lambda delta: delta > 0, "a number above 0")
        set_optional_number(self, "off_policy_mask_threshold", lambda _: True, "a number")
        length = self.max_completion_length
        if type(length) is not int or not 1 <= length <= LONGEST_COMPLETION:
            raise ValueError(f"max_completion_length: got {length!r:.40}, takes an integer of at least 1")

    @property
    def ratio_bounds(self) -> tuple[float, float]:
        """Where the ratio is clipped, as (low, high): (0, inf) where the loss has no such bound."""
        if self.loss_type is LossType.CISPO:
            two_sided = self.conventions.cispo_clip is CispoClip.TWO_SIDED
            return 1.0 - self.epsilon_low if two_sided else 0.0, self.epsilon_high
        if self.loss_type is LossType.GMPO:
            return math.exp(-self.epsilon_low), math.exp(self.epsilon_high)
        if not self.loss_type.clips:
            return 0.0, math.inf
        return 1.0 - self.epsilon_low, 1.0 + self.epsilon_high
