"""A seeded fault: a correct implementation with one step done wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...target import DTYPES, LEVELS, Support, Target, TensorCase
from .steps import Steps

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo")
"""Losses with the clipped surrogate."""

LOSSES = (*CLIPPED, "cispo")
"""All that the steps know."""

TOKEN_MEANS = ("bnpo", "dapo", "cispo")
"""Losses in which every token weighs the same."""


@dataclass(frozen=True)
class Fault:
    """One deliberate mistake.

    `wrong` says in one line what is wrong. It claims only what it changes: `loss_types`, `levels`, `dtypes`,
    and with `needs_kl` only cases with a KL term. An `equivalent` one changes nothing that counts.
    """

    name: str
    wrong: str
    steps: Steps
    loss_types: tuple[str, ...] = LOSSES
    levels: tuple[str, ...] = LEVELS
    dtypes: tuple[str, ...] = DTYPES
    needs_kl: bool = False
    equivalent: bool = False


class FaultTarget(Target):
    """A fault as a target."""

    conventions: Mapping[str, Any] = {"empty_rows": "counted", "padding": ["finite"]}

    def __init__(self, fault: Fault) -> None:
        self.label = f"fault:{fault.name}"
        self.versions: Mapping[str, str] = {}
        self.replaced = (fault.wrong,)
        self.supports = Support(
            fault.loss_types, fault.levels, fault.dtypes, ("beta", "old_logps", "token_advantages")
        )
        self._fault = fault

    def refusal(self, case: TensorCase) -> str | None:
        if self._fault.needs_kl and case.spec.beta == 0:
            return f"{self.label} changes nothing but the KL term, which needs a beta that is not 0"
        return super().refusal(case)

    def loss(self, case: TensorCase) -> Tensor:
        return self._fault.steps.loss(case)
