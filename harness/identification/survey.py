"""Every loss of a target, identified."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from harness.identification.identify import Identification, identify
from harness.judging import client_for, contestant
from harness.plan import Plan
from oracles.space.catalogue import everyday, whole

_NOT_ASKED: Final = {
    "delta": "delta",
    "importance_ratio": "importance ratios",
    "off_policy_mask": "the off-policy mask",
    "k3_bias_corrected": "the bias-corrected KL term",
    "k1": "k1",
    "k2": "k2",
}


@dataclass(frozen=True)
class Survey:
    """What a target computes, loss by loss; `not_asked` are options it has that no probe uses."""

    label: str
    found: tuple[Identification, ...]
    not_asked: tuple[str, ...]


def survey(plan: Plan, target: str, every_formula: bool) -> Survey:
    """Identify every loss and level of a plan that a target has. Raises `TargetUnavailable`."""
    catalogue = whole() if every_formula else everyday()
    with client_for(plan, target) as client:
        one = contestant(plan, target, client)
        found = tuple(
            identify(one, loss_type, level, catalogue)
            for loss_type, level in product(plan.loss_types, plan.levels)
            if any(one.takes(loss_type, level, dtype) for dtype in plan.dtypes)
        )
        not_asked = tuple(words for option, words in _NOT_ASKED.items() if option in one.facts.supports.options)
    return Survey(one.facts.label, found, not_asked)
