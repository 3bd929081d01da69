"""The oracles' exact losses and gradients are those of the closed forms, written independently."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from bare_cases import bare_case, drawn
from closed_forms import LOSSES, Sum, closed_form
from flint import arb

from cases.case import Case
from cases.conventions import Conventions, EmptyRows
from cases.descriptions import Description
from cases.dtypes import DTYPES
from cases.spec import Level, LossType
from oracles.completions import Formula
from oracles.registry import ORACLES
from oracles.sweep import Gradient, gradient

CASES: Final = 1000
LARGEST: Final = 40
"""Positions of a batch: what holds for a sum of two completions holds for eight."""

CELLS: Final = tuple(
    (dtype, level, beta, empty_rows)
    for beta in (0.0, 0.04, 1.0)
    for level in Level
    for empty_rows in EmptyRows
    for dtype in DTYPES.values()
)
TIGHT: Final = 2.0**-100
"""Balls this small against what was added up: that two of them overlap says that the numbers are equal."""


@pytest.fixture(scope="module")
def descriptions() -> list[Description]:
    """Small descriptions, as many as there are cases."""
    small = [one for one in drawn(CASES * 5 // 4, 20) if len(one.rows) * one.columns <= LARGEST]
    assert len(small) >= CASES
    return small[:CASES]


@dataclass
class Seen:
    """What the cases had in them."""

    cases: Counter[str] = field(default_factory=Counter)
    elements: Counter[str] = field(default_factory=Counter)


def _case(description: Description, number: int, loss_type: LossType) -> Case:
    # Each loss meets a description in another cell.
    dtype, level, beta, empty_rows = CELLS[(number + 7 * LOSSES.index(loss_type)) % len(CELLS)]
    case = bare_case(description, dtype, level, loss_type, beta)
    if case.batch.tokens == 0:
        return case
    return replace(case, spec=replace(case.spec, conventions=Conventions(empty_rows)))


def _equal(oracle: arb, closed: Sum) -> bool:
    if not oracle.overlaps(closed.value):
        return False
    assert max(float(oracle.rad()), float(closed.value.rad())) <= TIGHT * closed.size
    return True


def _admitted(slopes: Gradient, index: int, closed: Sum, seen: Seen) -> bool:
    """Whether the closed form is an outcome, the only one where nothing is undecided, or in the hull."""
    outcomes = [outcome.values[index] for outcome in slopes.outcomes]
    bounds = None if slopes.hull is None else slopes.hull.bounds[index]
    decided = bounds is None and all(outcome.overlaps(outcomes[0]) for outcome in outcomes)
    seen.elements["decided" if decided else "undecided"] += 1
    if any(_equal(outcome, closed) for outcome in outcomes):
        return True
    if bounds is None:
        return False
    seen.elements["in the hull only"] += 1
    low, high = bounds
    return not (closed.value < low or closed.value > high)


@pytest.mark.parametrize("loss_type", LOSSES)
def test_oracle_is_the_closed_form(loss_type: LossType, descriptions: list[Description]) -> None:
    """Loss and gradient by automatic differentiation equal the ones derived by hand, to the ball radius."""
    seen = Seen()
    for number, description in enumerate(descriptions):
        case = _case(description, number, loss_type)
        formula = Formula.of(case)
        loss = ORACLES[loss_type].loss(formula)
        slopes = gradient(loss, list(formula.leaves.values()))
        closed = closed_form(case)
        assert list(closed.gradient) == list(formula.leaves)
        assert _equal(loss.value, closed.loss), (number, loss.value, closed.loss)
        for index, (position, expected) in enumerate(closed.gradient.items()):
            found = [outcome.values[index] for outcome in slopes.outcomes]
            assert _admitted(slopes, index, expected, seen), (number, position, expected, found, slopes.hull)
        seen.cases[case.spec.importance_sampling_level] += 1
        seen.cases["beta" if case.spec.beta else "no beta"] += 1
        seen.cases["on-policy" if case.batch.old_logps is None else "off-policy"] += 1
        seen.cases[f"advantages of {case.batch.advantages.ndim} axes"] += 1
        seen.cases[str(case.spec.conventions.empty_rows)] += int(0 in case.batch.lengths)
    # Nothing was left out, and what is undecided was the exception.
    assert len(descriptions) == CASES
    assert len(seen.cases) == 10
    assert min(seen.cases.values()) > 50
    if loss_type is LossType.CISPO:
        assert seen.elements["undecided"] == 0
    else:
        assert 0 < seen.elements["undecided"] < 0.25 * seen.elements["decided"]
        assert seen.elements["in the hull only"] > 0
