"""Faults in the second upper bound of the ratio, delta."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .fault import CLIPPED, Fault
from .steps import Steps
from .terms import Bounds, bounds, by_token, cap


def _raised(ratio: Tensor, case: TensorCase) -> Tensor:
    return torch.clamp(ratio, min=case.spec.delta)


def _one_more(case: TensorCase) -> TensorCase:
    delta = case.spec.delta
    return case if delta is None else replace(case, spec=replace(case.spec, delta=1 + delta))


def _straight_through(ratio: Tensor, case: TensorCase) -> Tensor:
    return cap(ratio, case).detach() + (ratio - ratio.detach())


def _negative_only(ratio: Tensor, case: TensorCase) -> Tensor:
    return torch.where(by_token(case) < 0, cap(ratio, case), ratio)


def _both(case: TensorCase) -> Bounds:
    low, high = bounds(case)
    return low, high if case.spec.delta is None else min(high, case.spec.delta)


def _fault(name: str, wrong: str, steps: Steps) -> Fault:
    return Fault(name, wrong, steps, CLIPPED, needs=("delta",))


FAULTS = (
    _fault("delta_ignored", "the ratio is not bounded by delta", Steps(cap=lambda ratio, _case: ratio)),
    _fault("delta_after_min", "delta bounds the clipped ratio, too", Steps(bounds=_both)),
    _fault("delta_below", "delta bounds the ratio from below, not from above", Steps(cap=_raised)),
    _fault("delta_plus_1", "the ratio is bounded by 1 + delta", Steps(inputs=_one_more)),
    _fault(
        "delta_negative_only", "delta bounds the ratio for negative advantages only", Steps(cap=_negative_only)
    ),
    _fault("delta_passes_gradient", "ratios that delta bounds pass the gradient on", Steps(cap=_straight_through)),
)
