"""Counts that formulas divide by, and the bounds of ratios: what rounding they are charged with."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
import pytest
import torch
from exact_answers import case_of, dyadic_batches
from flint import arb, ctx

from cases.dtypes import DTYPES, FLOAT16, FLOAT64, DType
from cases.spec import Level, LossType
from oracles.completions import Formula
from oracles.contract import Contract
from oracles.count import Count
from oracles.expectation import SLACK
from oracles.sweep import gradient
from oracles.tape import Tape

BOUNDS: Final = (0.5, 0.8, 0.9997, 1.0004, 1.2, 1.28, 2.0, 5.0)

every_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))


def tape_of(dtype: DType) -> Tape:
    return Tape(Contract.of(dtype), dtype.holds)


@pytest.mark.parametrize(
    ("factors", "value", "roundings", "steps"),
    [
        ((), 1, 0, 0),
        ((1, 1), 1, 0, 0),
        ((8, 1, 4), 32, 0, 2),
        ((3,), 3, 1, 1),
        ((3, 5, 2), 30, 2, 3),
        ((Fraction(1, 2), 6), 3, 1, 2),
        ((Fraction(2, 3),), Fraction(2, 3), 1, 1),
    ],
)
def test_counts(factors: tuple[int | Fraction, ...], value: Fraction, roundings: int, steps: int) -> None:
    """Powers of two round nothing; every factor but 1 is a step; factors may be added later."""
    assert Count.of(*factors) == Count(Fraction(value), roundings, steps)
    assert Count.of(7).times(*factors) == Count(Fraction(value) * 7, roundings + 1, steps + 1)


@every_dtype
def test_powers_of_two_round_nothing(dtype: DType) -> None:
    """Dividing by them has room for underflow only, and by 1 for nothing; another factor is rounded twice."""
    x = tape_of(dtype).leaf(3.0)
    assert x / Count.of(1, 1) is x
    # One underflow a step, and one in the term that the divisor may be folded into.
    assert (x / Count.of(8, 4)).radius == 3.0 * dtype.underflow * 3
    by_three, by_fifteen = ((x / Count.of(*factors)).radius for factors in ((3,), (3, 5)))
    assert by_three == pytest.approx(2 * dtype.unit_roundoff, rel=1e-2)
    assert by_fifteen == pytest.approx(4 * dtype.unit_roundoff / 5, rel=1e-2)


@every_dtype
@pytest.mark.parametrize("factors", [(2,), (4, 2), (8, 16, 2, 2)], ids=str)
def test_every_step_may_underflow(dtype: DType, factors: tuple[int, ...]) -> None:
    """Steps that take a number out of the normal range, gradually or at once, stay within the radius."""
    random = np.random.default_rng(5)
    values = dtype.round(2.0**dtype.min_exponent * random.uniform(1.0, 64.0, 500))
    count = Count.of(*factors)
    answers = torch.tensor(values, dtype=getattr(torch, dtype.name))
    for factor in factors:
        answers = answers / factor
    flushed = answers.double().numpy()
    flushed = np.where(np.abs(flushed) < 2.0**dtype.min_exponent, 0.0, flushed)
    rounded = 0
    for value, *ways in zip(values.tolist(), answers.double().tolist(), flushed.tolist(), strict=True):
        exact = tape_of(dtype).leaf(value) / count
        for way in ways[: 1 if dtype is FLOAT16 else 2]:
            error = abs(float(arb(way) - exact.value))
            assert error <= exact.radius * SLACK
            rounded += error > 0
    assert rounded > 0


def test_underflow_of_a_slope() -> None:
    """A derivative that is divided step by step may underflow at each of them."""
    one, four = (tape_of(FLOAT16).leaf(1.0) for _ in range(2))
    tiny = 2.0**-12
    at_once, stepwise = one * tiny / Count.of(16), four * tiny / Count.of(2, 2, 2, 2)
    (ours,), (theirs,) = (gradient(*pair).outcomes for pair in ((at_once, [one]), (stepwise, [four])))
    assert ours.values == theirs.values == (tiny / 16,)
    assert theirs.radii[0] - ours.radii[0] >= 2 * 3 * FLOAT16.underflow * tiny


@every_dtype
def test_ratio_bound_is_the_same_number(dtype: DType) -> None:
    """Only the radius grows, by an exponential and by the rounding of a logarithm; no gradient passes."""
    tape = tape_of(dtype)
    for number in BOUNDS:
        plain = tape.number(number)
        bound = tape.ratio_bound(plain)
        assert (bound.value, bound.mid, bound.index) == (plain.value, number, -1)
        room = (2 + 2 * abs(math.log(number))) * dtype.unit_roundoff * number
        assert bound.radius == pytest.approx(plain.radius + room)


@every_dtype
def test_ratio_bound_may_be_applied_to_logarithms(dtype: DType) -> None:
    """exp(log bound), the bound rounded first or the logarithm alone, is within the radius."""
    kind = getattr(torch, dtype.name)
    bounds = np.concatenate([BOUNDS, np.random.default_rng(2).uniform(0.01, 8.0, 2000)])
    rounded = torch.tensor(bounds).to(kind)
    ways = (
        rounded,
        rounded.log().exp(),
        torch.tensor(np.log(bounds)).to(kind).exp(),
        torch.minimum(torch.full_like(rounded, 9.0), rounded.log()).exp(),
    )
    tape = tape_of(dtype)
    largest = 0.0
    for number, *answers in zip(bounds.tolist(), *(way.double().tolist() for way in ways), strict=True):
        bound = tape.ratio_bound(tape.number(number))
        error = max(abs(float(arb(answer) - bound.value)) for answer in answers)
        largest = max(largest, error / bound.radius)
    assert 0.1 < largest <= SLACK


def test_parameters_are_ratio_bounds() -> None:
    """The clip bounds, the cap and the second bound may all be applied to logarithms, at any level."""
    batch = next(iter(dyadic_batches(1)))
    case = case_of(batch, LossType.GRPO, Level.TOKEN, epsilon_low=0.2, epsilon_high=0.28, delta=3.0)
    parameters = Formula.of(case).parameters
    u = FLOAT64.unit_roundoff
    low, high, cap, delta = parameters.ratio_low, parameters.ratio_high, parameters.ratio_cap, parameters.delta
    assert delta is not None
    for bound, mid in ((low, 0.8), (high, 1.28), (cap, 0.28), (delta, 3.0)):
        assert bound.mid == pytest.approx(mid, rel=1e-15)
        assert bound.radius >= (2 + 2 * abs(math.log(mid))) * u * mid * (1 - 1e-12)
    with ctx.workprec(300):
        # Exact arithmetic on the number that was given, not on its decimal digits.
        assert low.value.overlaps(1 - arb(0.2))
        assert high.value.overlaps(1 + arb(0.28))
