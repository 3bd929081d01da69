"""Formulas with one step written wrong: right where no step is, and each another formula somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product

import numpy as np
import pytest

from cases.case import Case
from cases.dtypes import FLOAT32, FLOAT64, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.schedule import boundary_descriptions
from cases.spec import Level, LossType
from oracles.expectation import Expectation, expect
from oracles.slips.catalogue import SLIPS
from oracles.slips.steps import Slip, Steps
from oracles.space.names import variant_of
from oracles.space.pieces import Pieces


def cases(loss_type: LossType, dtype: DType = FLOAT32) -> Iterator[Case]:
    """Boundary cases of a loss at both levels, with a KL term."""
    for description in boundary_descriptions():
        for level in Level:
            yield case_for(description, realise(description, dtype, level), loss_type, level, 0.04)


def written(case: Case, slip: Slip | None = None) -> Expectation:
    """What the loss with a slip, or with none, gives."""
    pieces, steps = Pieces(case), Steps.asked(case.spec)
    changed = steps if slip is None else slip.change(steps, case)
    return pieces.expected(pieces.written(changed, variant_of(case.spec)))


@pytest.mark.parametrize("loss_type", LossType)
def test_the_steps_as_asked_are_the_oracle(loss_type: LossType) -> None:
    """Loss, gradient and bounds, in every boundary case in which no jump is undecided."""
    for case in cases(loss_type):
        right = expect(case)
        if not right.others:
            ours = written(case)
            np.testing.assert_allclose(ours.loss.high, right.loss.high, rtol=1e-12, atol=1e-300)
            np.testing.assert_allclose(ours.gradients[0].high, right.gradients[0].high, rtol=1e-12, atol=1e-300)


@cache
def showing() -> frozenset[str]:
    """The slips that differ from what is right, by more than its bound, in a boundary case."""
    found: set[str] = set()
    # Some change no more than float32 rounds.
    for dtype, loss_type in product((FLOAT32, FLOAT64), LossType):
        for case in cases(loss_type, dtype):
            left = [slip for slip in SLIPS if slip.words not in found and slip.concerns(case)]
            if left and case.batch.mask.size <= 64:
                right = expect(case)
                found |= {slip.words for slip in left if differs(written(case, slip), right)}
    return frozenset(found)


def differs(one: Expectation, right: Expectation) -> bool:
    """Whether the loss or a gradient element is further away than rounding explains."""
    pairs = ((one.loss, right.loss), (one.gradients[0], right.gradients[0]))
    return any((np.abs(a.high - b.high) > a.bound + b.bound).any() for a, b in pairs)


@pytest.mark.parametrize("words", dict.fromkeys(slip.words for slip in SLIPS))
def test_a_slip_is_another_formula(words: str) -> None:
    """What could explain nothing has no place in the catalogue."""
    assert words in showing()
