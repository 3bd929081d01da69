"""What the probes leave open where several formulas explain all answers, and what it would take to tell."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.identification.identify import Identification
from oracles.space.identities import canonical
from oracles.space.variant import AXES

_MOST_SHOWN: Final = 4
_DECIDES: Final = {
    "surrogate": ("old_logps",),
    "ratio": ("old_logps", "token_advantages", "importance_ratio"),
    "aggregation": ("split",),
    "kl": ("old_logps",),
    "placement": ("split",),
    "rows": ("split",),
    "weighting": ("importance_ratio",),
}
"""What a probe must have for two choices on an axis to differ, the most telling first."""

_NEEDED: Final = {
    "old_logps": "old_logps that differ from logps",
    "token_advantages": "advantages of shape (B, T)",
    "importance_ratio": "importance ratios",
    "split": "accumulation steps or ranks",
}
_ONE_FORMULA: Final = (
    "dapo and bnpo are one formula in one process: the mean over the tokens of the micro-batch is that over the "
    "tokens of the step"
)


@dataclass(frozen=True)
class Doubt:
    """Choices that explain the answers alike, and what would tell them apart, in words."""

    choices: str
    needed: str


def unsettled(one: Identification) -> Iterator[Doubt]:
    """The doubts that are left about a loss: what one process cannot tell, then axis by axis."""
    if not one.explained:
        return
    whole = dict.fromkeys(canonical(point, in_one_piece=True) for point in one.explained)
    if len(whole) < len(one.explained):
        yield Doubt(_ONE_FORMULA, _needed(one, "aggregation"))
    for axis in AXES:
        choices = _in_order({getattr(point, axis) for point in whole})
        if len(choices) < 2:
            continue
        words = [choice.words for choice in choices[:_MOST_SHOWN]]
        more = [f"{len(choices) - _MOST_SHOWN} more"] if len(choices) > _MOST_SHOWN else []
        yield Doubt(" / ".join([*words, *more]), _needed(one, axis))


def _in_order(choices: Collection[Any]) -> list[Any]:
    """The choices of one axis as the axis lists them."""
    return [choice for choice in type(next(iter(choices))) if choice in choices]


def _needed(one: Identification, axis: str) -> str:
    lacking = [feature for feature in _DECIDES[axis] if feature not in one.features]
    if not lacking:
        return "none of the probes can tell"
    why = "; ".join(one.refusals) if one.refusals and lacking[0] == "split" else "the target takes none"
    return f"{_NEEDED[lacking[0]]} ({why})"
