"""Every loss of a target, identified."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from harness.identification.answers import Sheets
from harness.identification.identify import Identification, identify
from harness.judging import client_for, contestant
from harness.outcome import TargetSupport
from harness.plan import Plan
from harness.progress import NOTHING, Gauge

_NOT_ASKED: Final = {
    "delta": "delta",
    "off_policy_mask": "the off-policy mask",
    "k3_bias_corrected": "the bias-corrected KL term",
    "k1": "k1",
    "k2": "k2",
}


@dataclass(frozen=True)
class Survey:
    """What a target computes, loss by loss.

    `target` is what it is called on the command line; `lacks` says what it has not, where it has nothing of what
    was asked for; `not_asked` are options it has that no probe uses.
    """

    target: str
    label: str
    found: tuple[Identification, ...]
    lacks: str
    not_asked: tuple[str, ...]


def survey(plan: Plan, target: str, every_formula: bool, gauge: Gauge = NOTHING) -> Survey:
    """Identify every loss and level of a plan that a target has. Raises `TargetUnavailable`."""
    sheets = Sheets()
    found = []
    with client_for(plan, target) as client:
        one = contestant(plan, target, client)
        asked = [
            (loss_type, level)
            for loss_type, level in product(plan.loss_types, plan.levels)
            if any(one.takes(loss_type, level, dtype) for dtype in plan.dtypes)
        ]
        gauge.expect(len(asked))
        for loss_type, level in asked:
            gauge.doing(f"{loss_type} {level}")
            found.append(identify(one, loss_type, level, sheets, every_formula))
            gauge.advance(int(not found[-1].is_as_asked and not found[-1].known_as))
    supports = one.facts.supports
    return Survey(
        target,
        one.facts.label,
        tuple(found),
        lacks="" if found else _lacks(plan, supports),
        not_asked=tuple(words for option, words in _NOT_ASKED.items() if option in supports.options),
    )


def _lacks(plan: Plan, supports: TargetSupport) -> str:
    """Why nothing of a plan can be asked of a target."""
    for kind, wanted, has in (
        ("loss", plan.loss_types, supports.loss_types),
        ("level", plan.levels, supports.levels),
        ("dtype", [dtype.name for dtype in plan.dtypes], supports.dtypes),
    ):
        if not set(map(str, wanted)) & set(has):
            if has:
                return f"has no {kind} {', '.join(map(str, wanted))}; it has {', '.join(has)}"
            return f"does not take what {', '.join(map(str, wanted))} needs; docs/targets.md lists the arguments"
    return "has none of the losses at the levels that were asked for"
