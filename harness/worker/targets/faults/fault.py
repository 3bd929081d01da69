"""A seeded fault: a correct implementation with one step done wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from torch import Tensor

from ...target import DTYPES, LEVELS, LOSS_TYPES, OPTIONS, Support, Target, TensorCase
from .steps import Steps

LOSSES = tuple(loss_type for loss_type in LOSS_TYPES if loss_type != "gmpo")
TAKEN = tuple(option for option in OPTIONS if option not in ("k1", "k2"))
"""The losses and the options that the steps have."""

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""Losses with the clipped surrogate."""

RATIOS = (*CLIPPED, "cispo", "sapo")
"""Losses that take the ratio at the level of the case."""

STEP_MEANS = ("dapo", "cispo", "vespo")
"""Losses that divide by the tokens of the optimizer step."""

TOKEN_MEANS = ("bnpo", *STEP_MEANS)
"""Losses in which every token weighs the same."""

ROW_MEANS = ("grpo", "sapo")
"""Losses in which every completion weighs the same."""

HALVES = ("bfloat16", "float16")
"""Dtypes in which a change of a thousandth drowns, or nearly."""

SHARED = tuple(loss_type for loss_type in LOSS_TYPES if loss_type not in STEP_MEANS)
"""Losses that are a mean over the micro-batches of a step."""


@dataclass(frozen=True)
class Fault:
    """One deliberate mistake.

    `wrong` says in one line what is wrong. It claims only what it changes: `loss_types`, `levels`, `dtypes`, and
    cases with all options of `needs`. In the dtypes of `drowned` it changes less than rounding may. `promises` are
    the lines of padding hygiene that it promises to keep. An `equivalent` one changes nothing that counts;
    a `large` one changes nothing but in large batches.
    """

    name: str
    wrong: str
    steps: Steps
    loss_types: tuple[str, ...] = LOSSES
    levels: tuple[str, ...] = LEVELS
    dtypes: tuple[str, ...] = DTYPES
    needs: tuple[str, ...] = ()
    drowned: tuple[str, ...] = ()
    promises: tuple[str, ...] = ("finite",)
    equivalent: bool = False
    large: bool = False


class FaultTarget(Target):
    """A fault as a target; `names` are those of all faults there are."""

    def __init__(self, fault: Fault, names: Sequence[str]) -> None:
        self.label = f"fault:{fault.name}"
        self.versions: Mapping[str, str] = {}
        self.replaced = (fault.wrong,)
        self.conventions: Mapping[str, Any] = {
            "empty_rows": "counted",
            "window_tokens": "exact",
            "padding": fault.promises,
        }
        self.supports = Support(fault.loss_types, fault.levels, fault.dtypes, TAKEN)
        self._fault = fault
        self._names = tuple(names)

    @property
    def facts(self) -> dict[str, Any]:
        """With what only a fault has to say, for `lossgate faults`."""
        fault = self._fault
        about = {
            "names": self._names,
            "equivalent": fault.equivalent,
            "drowned": fault.drowned,
            "large": fault.large,
        }
        return {**super().facts, "fault": about}

    def refusal(self, case: TensorCase) -> str | None:
        unsupported = super().refusal(case)
        if unsupported is not None:
            return unsupported
        for option in self._fault.needs:
            others = tuple(other for other in TAKEN if other != option)
            if Support(options=others).refusal(case) is None:
                return f"{self.label} changes nothing without the option {option}"
        return None

    def compile(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self.loss = wrap(self.loss)  # type: ignore[method-assign] # of this fault alone

    def loss(self, case: TensorCase) -> Tensor:
        return self._fault.steps.loss(case)
