"""Faults in how the ratio is clipped and the surrogate chosen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ...target import Spec, TensorCase
from .fault import CLIPPED, HALVES, Fault
from .steps import Steps
from .terms import Bounds, clip, smaller, weighted


def _larger(ratio: Tensor, clipped: Tensor, advantages: Tensor, _logps: Tensor) -> Tensor:
    return torch.max(ratio * advantages, clipped * advantages)


def _clipped_only(_ratio: Tensor, clipped: Tensor, advantages: Tensor, _logps: Tensor) -> Tensor:
    return clipped * advantages


def _with_floor(ratio: Tensor, clipped: Tensor, advantages: Tensor, logps: Tensor) -> Tensor:
    surrogate = smaller(ratio, clipped, advantages, logps)
    return torch.where(advantages < 0, torch.max(surrogate, 3 * advantages), surrogate)


def _unclipped(ratio: Tensor, _low: float | None, _high: float) -> Tensor:
    return ratio


def _straight_through(ratio: Tensor, low: float | None, high: float) -> Tensor:
    return clip(ratio, low, high).detach() + (ratio - ratio.detach())


def _log_bounds(case: TensorCase) -> Bounds:
    return math.exp(-case.spec.epsilon_low), math.exp(case.spec.epsilon_high)


def _epsilons(low: Callable[[Spec], float], high: Callable[[Spec], float]) -> Steps:
    def changed(case: TensorCase) -> TensorCase:
        spec = replace(case.spec, epsilon_low=low(case.spec), epsilon_high=high(case.spec))
        return replace(case, spec=spec)

    return Steps(inputs=changed)


def _exchanged(case: TensorCase) -> TensorCase:
    other = "cispo" if case.spec.loss_type == "dapo" else "dapo"
    return replace(case, spec=replace(case.spec, loss_type=other))


def _with_gradient(_ratio: Tensor, clipped: Tensor, advantages: Tensor, logps: Tensor) -> Tensor:
    return clipped * advantages * logps


def _shifted(by: float) -> Steps:
    return _epsilons(lambda spec: spec.epsilon_low + by, lambda spec: spec.epsilon_high + by)


_BOUNDED = (*CLIPPED, "cispo")


def _too_large(name: str, by: str) -> Fault:
    wrong = f"epsilon_low and epsilon_high are {by} too large"
    return Fault(name, wrong, _shifted(float(by)), _BOUNDED, drowned=HALVES)


FAULTS = (
    Fault(
        "clip_max",
        "the larger of r A and clip(r) A is taken, not the smaller",
        Steps(surrogate=_larger),
        loss_types=CLIPPED,
    ),
    Fault("no_clip", "the ratio is not clipped", Steps(clip=_unclipped), loss_types=_BOUNDED),
    Fault(
        "clip_only",
        "clip(r) A is taken wherever it is larger than r A, too",
        Steps(surrogate=_clipped_only),
        loss_types=CLIPPED,
    ),
    Fault(
        "clip_straight_through",
        "clipped ratios pass the gradient on",
        Steps(clip=_straight_through),
        loss_types=CLIPPED,
    ),
    Fault(
        "clip_log_bounds",
        "the ratio is clipped at exp(-epsilon_low) and exp(epsilon_high)",
        Steps(bounds=_log_bounds),
        loss_types=CLIPPED,
    ),
    Fault(
        "dual_clip3",
        "for negative advantages the ratio is also clipped at 3",
        Steps(surrogate=_with_floor),
        loss_types=CLIPPED,
    ),
    Fault(
        "cispo",
        "the policy term is cispo's, a clipped and detached ratio times A log pi",
        Steps(surrogate=weighted),
        loss_types=CLIPPED,
    ),
    Fault(
        "labels_exchanged",
        "the labels of two branches are exchanged: dapo computes cispo, cispo computes dapo",
        Steps(inputs=_exchanged),
        loss_types=("dapo", "cispo"),
    ),
    Fault(
        "cispo_gradient",
        "the ratio of cispo is not detached, and passes the gradient where it is below its cap",
        Steps(weighted=_with_gradient),
        loss_types=("cispo",),
    ),
    Fault(
        "eps_hi_ignored",
        "epsilon_low is used for epsilon_high",
        _epsilons(lambda spec: spec.epsilon_low, lambda spec: spec.epsilon_low),
        loss_types=_BOUNDED,
    ),
    Fault(
        "eps_swapped",
        "epsilon_low and epsilon_high are swapped",
        _epsilons(lambda spec: spec.epsilon_high, lambda spec: spec.epsilon_low),
        loss_types=_BOUNDED,
    ),
    _too_large("eps_0.2001", "1e-4"),
    _too_large("eps_1e-6", "1e-6"),
)
