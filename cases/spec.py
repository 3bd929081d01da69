"""Which loss is meant, with which hyper-parameters, and what the papers leave open."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=StrEnum)

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

    @property
    def clips(self) -> bool:
        """Whether the policy term is the clipped surrogate of PPO."""
        return self not in (LossType.CISPO, LossType.SAPO, LossType.VESPO)


class Level(StrEnum):
    """Importance-sampling level: one ratio a token, or one length-normalised ratio a completion (GSPO)."""

    TOKEN = "token"
    SEQUENCE = "sequence"


class KLEstimator(StrEnum):
    """How the KL divergence is estimated per token.

    k3 is $e^x - x - 1$ with $x$ = ref_logps - logps; bias-corrected, it is multiplied by the importance ratio,
    through which the gradient passes (DeepSeek-V3.2).
    """

    K3 = "k3"
    K3_BIAS_CORRECTED = "k3_bias_corrected"


class EmptyRows(StrEnum):
    """Whether a completion without tokens counts in B."""

    COUNTED = "counted"
    NOT_COUNTED = "not_counted"


class WindowTokens(StrEnum):
    """Which tokens dapo, cispo and vespo divide by when a generation batch is split into optimizer steps.

    `exact`: the tokens of this step. `generation_average`: those of the whole generation batch times
    accumulation_steps / steps_per_generation.
    """

    EXACT = "exact"
    GENERATION_AVERAGE = "generation_average"


class PaddingPromise(StrEnum):
    """What may stand at masked positions without changing the answer."""

    FINITE = "finite"
    HUGE = "huge"
    INF = "inf"
    NAN = "nan"


@dataclass(frozen=True)
class Conventions:
    """What papers leave open and libraries settle differently; a target declares its own.

    * `empty_rows`: whether a completion without tokens counts in B.
    * `window_tokens`: what dapo, cispo and vespo divide by when a generation batch is split.
    * `padding`: what the target promises to ignore at masked positions.
    """

    empty_rows: EmptyRows = EmptyRows.COUNTED
    window_tokens: WindowTokens = WindowTokens.EXACT
    padding: tuple[PaddingPromise, ...] = (PaddingPromise.FINITE,)

    def __post_init__(self) -> None:
        _coerce(self, "empty_rows", EmptyRows)
        _coerce(self, "window_tokens", WindowTokens)
        if isinstance(self.padding, str) or not isinstance(self.padding, Iterable):
            raise ValueError(f"padding: got {self.padding!r}, takes a list of {', '.join(PaddingPromise)}")
        promises = tuple(_member(PaddingPromise, "padding", promise) for promise in self.padding)
        object.__setattr__(self, "padding", promises)


@dataclass(frozen=True)
class LossSpec:
    """A loss with its hyper-parameters.

    * `beta >= 0`: coefficient of the KL term, which stands inside the token sum; `kl_estimator` says how it is
      estimated.
    * `epsilon_low` in (0, 1), `epsilon_high > 0`: the ratio is clipped to [1 - epsilon_low, 1 + epsilon_high].
      For `cispo`, `epsilon_high` is the absolute cap of the ratio and `epsilon_low` is not used.
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
    conventions: Conventions = field(default_factory=Conventions)

    def __post_init__(self) -> None:
        _coerce(self, "loss_type", LossType)
        _coerce(self, "importance_sampling_level", Level)
        self._number("beta", lambda beta: beta >= 0, "a number of at least 0")
        self._number("epsilon_low", lambda epsilon: 0 < epsilon < 1, "a number between 0 and 1")
        _coerce(self, "kl_estimator", KLEstimator)
        self._number("epsilon_high", lambda epsilon: epsilon > 0, "a number above 0")
        for name in _POSITIVE:
            self._number(name, lambda value: value > 0, "a number above 0")
        if self.delta is not None:
            self._number("delta", lambda delta: delta > 0, "a number above 0, or None")
        if self.off_policy_mask_threshold is not None:
            self._number("off_policy_mask_threshold", lambda _: True, "a number, or None")
        length = self.max_completion_length
        if type(length) is not int or not 1 <= length <= LONGEST_COMPLETION:
            raise ValueError(f"max_completion_length: got {length!r:.40}, takes an integer of at least 1")

    def _number(self, name: str, admits: Callable[[float], bool], takes: str) -> None:
        value = getattr(self, name)
        try:
            number = math.nan if isinstance(value, bool | str) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number) or not admits(number):
            raise ValueError(f"{name}: got {value!r:.40}, takes {takes}")
        object.__setattr__(self, name, number)

    @property
    def ratio_bounds(self) -> tuple[float, float]:
        """Where the ratio is clipped, as (low, high): (0, inf) where the loss has no such bound."""
        if self.loss_type is LossType.CISPO:
            return 0.0, self.epsilon_high
        if not self.loss_type.clips:
            return 0.0, math.inf
        return 1.0 - self.epsilon_low, 1.0 + self.epsilon_high


def _member(kind: type[E], name: str, value: object) -> E:
    try:
        return kind(str(value))
    except ValueError:
        raise ValueError(f"{name}: got {value!r}, takes one of {', '.join(kind)}") from None


def _coerce(instance: object, name: str, kind: type[StrEnum]) -> None:
    object.__setattr__(instance, name, _member(kind, name, getattr(instance, name)))
