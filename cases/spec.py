"""Which loss is meant, with which hyper-parameters, and what the papers leave open."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=StrEnum)


class LossType(StrEnum):
    """Named losses; the aggregation and the surrogate follow from the name."""

    GRPO = "grpo"
    BNPO = "bnpo"
    DR_GRPO = "dr_grpo"
    DAPO = "dapo"
    CISPO = "cispo"


class Level(StrEnum):
    """Importance-sampling level: one ratio a token, or one length-normalised ratio a completion (GSPO)."""

    TOKEN = "token"
    SEQUENCE = "sequence"


class EmptyRows(StrEnum):
    """Whether a completion without tokens counts in B."""

    COUNTED = "counted"
    NOT_COUNTED = "not_counted"


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
    * `padding`: what the target promises to ignore at masked positions.
    """

    empty_rows: EmptyRows = EmptyRows.COUNTED
    padding: tuple[PaddingPromise, ...] = (PaddingPromise.FINITE,)

    def __post_init__(self) -> None:
        _coerce(self, "empty_rows", EmptyRows)
        object.__setattr__(self, "padding", tuple(_member(PaddingPromise, "padding", p) for p in self.padding))


@dataclass(frozen=True)
class LossSpec:
    """A loss with its hyper-parameters.

    * `beta >= 0`: coefficient of the KL term (k3, inside the token sum).
    * `epsilon_low` in (0, 1), `epsilon_high > 0`: the ratio is clipped to [1 - epsilon_low, 1 + epsilon_high].
      For `cispo`, `epsilon_high` is the absolute cap of the ratio and `epsilon_low` is not used.
    * `max_completion_length >= 1`: the constant normaliser of `dr_grpo`.

    Raises `ValueError` naming the field, what it got and what it takes.
    """

    loss_type: LossType
    importance_sampling_level: Level = Level.TOKEN
    beta: float = 0.0
    epsilon_low: float = 0.2
    epsilon_high: float = 0.2
    max_completion_length: int = 256
    conventions: Conventions = field(default_factory=Conventions)

    def __post_init__(self) -> None:
        _coerce(self, "loss_type", LossType)
        _coerce(self, "importance_sampling_level", Level)
        self._number("beta", lambda beta: beta >= 0, "a number of at least 0")
        self._number("epsilon_low", lambda epsilon: 0 < epsilon < 1, "a number between 0 and 1")
        self._number("epsilon_high", lambda epsilon: epsilon > 0, "a number above 0")
        length = self.max_completion_length
        if type(length) is not int or length < 1:
            raise ValueError(f"max_completion_length: got {length!r}, takes an integer of at least 1")

    def _number(self, name: str, admits: Callable[[float], bool], takes: str) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name}: got {value!r}, takes {takes}")
        if not admits(value):
            raise ValueError(f"{name}: got {value!r}, takes {takes}")
        object.__setattr__(self, name, float(value))

    @property
    def ratio_bounds(self) -> tuple[float, float]:
        """Where the ratio is clipped, as (low, high); low is 0 where the loss has no lower bound."""
        if self.loss_type is LossType.CISPO:
            return 0.0, self.epsilon_high
        return 1.0 - self.epsilon_low, 1.0 + self.epsilon_high


def _member(kind: type[E], name: str, value: object) -> E:
    try:
        return kind(str(value))
    except ValueError:
        raise ValueError(f"{name}: got {value!r}, takes one of {', '.join(kind)}") from None


def _coerce(instance: object, name: str, kind: type[StrEnum]) -> None:
    object.__setattr__(instance, name, _member(kind, name, getattr(instance, name)))
