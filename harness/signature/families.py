"""Families of formulas with one free number: an option off by a constant, a bound that nobody asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from cases.case import Case
from cases.spec import LossType

Concerns = Callable[[Case], bool]
Make = Callable[[Case, float], Case]


@dataclass(frozen=True)
class Family:
    """`concerns` says which cases have anything of the kind; `made` gives the case for a number, and raises
    `ValueError` where there cannot be such a case. `grid` has the numbers between which a solution is looked for;
    `words` tell it.
    """

    concerns: Concerns
    made: Make
    grid: tuple[float, ...]
    words: Callable[[str], str]


_OFFSETS: Final = tuple(sign * size for sign in (-1.0, 1.0) for size in (1.0, 0.3, 0.1, 1e-2, 1e-3, 1e-4, 1e-6))
_FACTORS: Final = (0.1, 0.5, 0.9, 0.99, 0.9999, 1.0001, 1.01, 1.1, 2.0, 10.0)
_EPSILONS: Final = (1e-3, 0.05, 0.1, 0.15, 0.19, 0.21, 0.25, 0.3, 0.5, 0.9, 0.999)
_HIGHER: Final = (*_EPSILONS, 1.5, 2.5, 5.0, 10.0)
_BOUNDS: Final = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 100.0)


def families() -> Iterator[Family]:
    """Every family, the plainest first."""
    for names, told, constants in (
        (("epsilon_low",), "epsilon_low", _EPSILONS),
        (("epsilon_high",), "epsilon_high", _HIGHER),
        (("epsilon_low", "epsilon_high"), "epsilon_low and epsilon_high", _EPSILONS),
        (("delta",), "delta", _BOUNDS),
        (("sapo_temperature_pos",), "sapo_temperature_pos", _BOUNDS),
        (("sapo_temperature_neg",), "sapo_temperature_neg", _BOUNDS),
        (("sapo_temperature_pos", "sapo_temperature_neg"), "sapo's temperatures", _BOUNDS),
        *(((name,), name, _BOUNDS) for name in _VESPO),
    ):
        yield from _of_options(names, told, constants)
    for convention, concerns, value, words in (
        ("log_ratio_bounds", _any, _symmetric, "log-ratio clamped to {} in size"),
        ("log_ratio_bounds", _any, _upper, "log-ratio clamped to at most {}"),
        ("log_ratio_bounds", _any, _lower, "log-ratio clamped to at least -{}"),
        ("kl_bound", _has_kl, float, "KL estimate clamped to {} in size"),
        ("kl_log_ratio_bound", _has_kl, float, "log-ratio of the KL term clamped to {} in size"),
        ("dual_clip", _clips, float, "a dual clip at {}"),
    ):
        yield Family(concerns, _under(convention, value), _BOUNDS, words.format)
    yield Family(_any, _clamped_advantages, _BOUNDS, "advantages clamped to {} in size".format)
    for limit, words in (
        (np.minimum, "importance ratios above {0} taken for {0}"),
        (np.maximum, "importance ratios below {0} taken for {0}"),
    ):
        yield Family(_weighs, _limited_importance(limit), _BOUNDS, words.format)
    yield Family(_any, _log_probabilities_above, _BOUNDS, "log-probabilities clamped to at least -{}".format)


_VESPO: Final = ("vespo_k_pos", "vespo_k_neg", "vespo_lambda_pos", "vespo_lambda_neg")
_OF_LOSS: Final = {"sapo": LossType.SAPO, "vespo": LossType.VESPO}


def _of_options(names: tuple[str, ...], told: str, constants: tuple[float, ...]) -> Iterator[Family]:
    def concerns(case: Case) -> bool:
        return _has(case, names[0]) and getattr(case.spec, names[0]) is not None

    def taken(change: Callable[[float, float], float]) -> Make:
        def made(case: Case, number: float) -> Case:
            changed: dict[str, Any] = {name: change(getattr(case.spec, name), number) for name in names}
            return replace(case, spec=replace(case.spec, **changed))

        return made

    yield Family(concerns, taken(lambda value, t: value + t), _OFFSETS, lambda t: f"{told} {_more(t)}")
    yield Family(concerns, taken(lambda value, t: value * t), _FACTORS, lambda t: f"{told} x {t}")
    yield Family(concerns, taken(lambda _value, t: t), constants, lambda t: f"{told} {t}, whatever is asked for")


def _more(number: str) -> str:
    return f"smaller by {number[1:]}" if number.startswith("-") else f"larger by {number}"


def _any(_case: Case) -> bool:
    return True


def _has_kl(case: Case) -> bool:
    return case.spec.beta > 0


def _clips(case: Case) -> bool:
    return case.spec.loss_type.clips


def _weighs(case: Case) -> bool:
    return case.batch.importance_ratio is not None


def _has(case: Case, option: str) -> bool:
    loss_type = case.spec.loss_type
    owner = _OF_LOSS.get(option.split("_")[0])
    if owner is not None:
        return loss_type is owner
    if option == "epsilon_high":
        return loss_type.clips or loss_type in (LossType.CISPO, LossType.GMPO)
    return loss_type.clips or (loss_type is LossType.GMPO and option == "epsilon_low")


def _symmetric(bound: float) -> tuple[float, float]:
    return -bound, bound


def _upper(bound: float) -> tuple[None, float]:
    return None, bound


def _lower(bound: float) -> tuple[float, None]:
    return -bound, None


def _under(convention: str, value: Callable[[float], Any]) -> Make:
    def made(case: Case, number: float) -> Case:
        conventions = replace(case.spec.conventions, **{convention: value(number)})
        return replace(case, spec=replace(case.spec, conventions=conventions))

    return made


def _clamped_advantages(case: Case, bound: float) -> Case:
    batch = case.batch
    return replace(case, batch=replace(batch, advantages=_held(case, np.clip(batch.advantages, -bound, bound))))


def _limited_importance(limit: Any) -> Make:
    def made(case: Case, bound: float) -> Case:
        limited = _held(case, limit(case.batch.importance_ratio, bound))
        return replace(case, batch=replace(case.batch, importance_ratio=limited))

    return made


def _log_probabilities_above(case: Case, bound: float) -> Case:
    return replace(case, batch=replace(case.batch, logps=_held(case, np.maximum(case.batch.logps, -bound))))


def _held(case: Case, values: Any) -> Any:
    """Numbers as the dtype holds them."""
    return case.batch.dtype.round(values)
