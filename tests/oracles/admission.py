"""Whether a closed form is what an oracle admits: its number, or within what rounding leaves undecided."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from closed_forms import ClosedForm, Sum
from exact_answers import whole_loss
from flint import arb

from cases.case import Case
from cases.spec import KLEstimator, LossType
from oracles.completions import Formula
from oracles.sweep import Gradient, gradient

TIGHT: Final = 2.0**-100
"""Balls this small against what was added up: that two of them overlap says that the numbers are equal."""

FLOOR: Final = 2.0**-80
"""What cancels in the oracle but not in the closed form: 1 - sigmoid, and two terms of r u, e^41 at most."""


@dataclass
class Seen:
    """What the cases had in them."""

    cases: Counter[str] = field(default_factory=Counter)
    elements: Counter[str] = field(default_factory=Counter)


def assert_admitted(case: Case, closed: ClosedForm, seen: Seen) -> None:
    """The oracle's loss is the closed form's, and so is its gradient, to the ball radius."""
    formula = Formula.of(case)
    loss = whole_loss(case, formula)
    slopes = gradient(loss, list(formula.leaves.values()))
    cancels = case.spec.loss_type is LossType.SAPO or case.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED
    floor = FLOOR if cancels else 0.0
    assert sorted(closed.gradient) == sorted(formula.leaves)
    assert _equal(loss.value, closed.loss), (case.id, case.spec, loss.value, closed.loss)
    for index, position in enumerate(formula.leaves):
        expected = closed.gradient[position]
        found = [outcome.values[index] for outcome in slopes.outcomes]
        assert _admitted(slopes, index, expected, floor, seen), (case.id, case.spec, position, expected, found)


def _equal(oracle: arb, closed: Sum, floor: float = 0.0) -> bool:
    if not oracle.overlaps(closed.value):
        return False
    assert max(float(oracle.rad()), float(closed.value.rad())) <= TIGHT * closed.size + floor
    return True


def _admitted(slopes: Gradient, index: int, closed: Sum, floor: float, seen: Seen) -> bool:
    """Whether the closed form is an outcome, the only one where nothing is undecided, or in the hull."""
    outcomes = [outcome.values[index] for outcome in slopes.outcomes]
    bounds = None if slopes.hull is None else slopes.hull.bounds[index]
    decided = bounds is None and all(outcome.overlaps(outcomes[0]) for outcome in outcomes)
    seen.elements["decided" if decided else "undecided"] += 1
    if any(_equal(outcome, closed, floor) for outcome in outcomes):
        return True
    if bounds is None:
        return False
    seen.elements["in the hull only"] += 1
    low, high = bounds
    return not (closed.value < low or closed.value > high)
