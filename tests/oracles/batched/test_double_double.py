"""Two float64 a number: every operation is within its unit of the exact result."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from flint import arb, ctx

from oracles.batched import double_double as dd
from oracles.batched.double_double import Value

RANDOM = np.random.default_rng(0)
SIZES = 10.0 ** RANDOM.uniform(-12, 2, 400) * RANDOM.choice([-1.0, 1.0], 400)
NUMBERS = SIZES, SIZES * 2.0**-54 * RANDOM.uniform(-1, 1, 400)
OTHERS = NUMBERS[0][::-1].copy(), NUMBERS[1][::-1].copy()
POSITIVE = np.abs(NUMBERS[0]), np.where(NUMBERS[0] > 0, NUMBERS[1], -NUMBERS[1])


def balls(value: Value) -> list[arb]:
    high, low = np.broadcast_arrays(*value)
    return [arb(float(a)) + arb(float(b)) for a, b in zip(high, low, strict=True)]


@pytest.mark.parametrize(
    ("found", "exact", "units"),
    [
        (dd.add(NUMBERS, OTHERS), lambda a, b: a + b, 1),
        (dd.subtract(NUMBERS, OTHERS), lambda a, b: a - b, 1),
        (dd.multiply(NUMBERS, OTHERS), lambda a, b: a * b, 1),
        (dd.divide(NUMBERS, OTHERS), lambda a, b: a / b, 2),
        (dd.exp(NUMBERS), lambda a, _: a.exp(), 2),
    ],
    ids=["add", "subtract", "multiply", "divide", "exp"],
)
def test_operations(found: Value, exact: Callable[[arb, arb], arb], units: int) -> None:
    """Relative to the result; a sum's operands do not cancel by more than they differ."""
    with ctx.workprec(300):
        for a, b, c in zip(balls(NUMBERS), balls(OTHERS), balls(found), strict=True):
            expected = exact(a, b)
            assert abs(c - expected) <= units * dd.UNIT * abs(expected)


def test_log() -> None:
    """Relative to the logarithm, for numbers that are not near 1."""
    with ctx.workprec(300):
        for a, c in zip(balls(POSITIVE), balls(dd.log(POSITIVE)), strict=True):
            expected = a.log()
            assert abs(c - expected) <= 2 * dd.UNIT * max(abs(expected), arb(0.25))


def test_exp_far_out() -> None:
    """Far below 0 it is 0, near the end of float64 it has all its digits."""
    high, low = dd.exp((np.array([-1e9, -800.0, 640.0]), np.zeros(3)))
    assert (high[:2] == 0.0).all()
    with ctx.workprec(300):
        assert abs(arb(float(high[2])) + arb(float(low[2])) - arb(640).exp()) <= dd.UNIT * arb(640).exp()
