"""Sigmoid, logarithm, division and ratio bounds: exact values, and radii that Torch's evaluations stay within."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from cases.dtypes import DTYPES, FLOAT32, DType, FloatArray
from oracles.contract import Contract
from oracles.count import Count
from oracles.expectation import SLACK
from oracles.operations import log, sigmoid
from oracles.scalar import Scalar
from oracles.sweep import gradient
from oracles.tape import Tape

INPUTS: Final = 2000
COUNTS: Final = (
    (3,),
    (7, 5),
    (8, 4),
    (2, 3, 2, 3),
    (257,),
    (1000, 12),
    (Fraction(1, 2), 6),
    (Fraction(2, 3), 3, 3),
)

every_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))


def tape_of(dtype: DType) -> Tape:
    return Tape(Contract.of(dtype), dtype.holds)


def spread(dtype: DType, reach: float, seed: int = 1) -> FloatArray:
    """Numbers of the dtype, of both signs, from a thousandth of the reach up to it."""
    random = np.random.default_rng(seed)
    size = reach * 10.0 ** random.uniform(-3.0, 0.0, INPUTS)
    return dtype.round(size * random.choice([-1.0, 1.0], INPUTS))


def positive(dtype: DType, seed: int = 1) -> FloatArray:
    return np.abs(spread(dtype, 8.0, seed))


def tensor(values: FloatArray, dtype: DType) -> Tensor:
    return torch.tensor(values, dtype=getattr(torch, dtype.name), requires_grad=True)


def evaluated(
    evaluate: Callable[[Tensor], Tensor], values: FloatArray, dtype: DType
) -> tuple[FloatArray, FloatArray]:
    """Values and derivatives as Torch has them."""
    x = tensor(values, dtype)
    y = evaluate(x)
    (slopes,) = torch.autograd.grad(y.sum(), x)
    return y.detach().double().numpy(), slopes.double().numpy()


def share(answer: float, exact: arb, radius: float) -> float:
    """How much of the radius an error takes; 0 where both are 0."""
    error = abs(float(arb(answer) - exact))
    return error / (radius * SLACK) if error else 0.0


def shares(
    formula: Callable[[Scalar], Scalar],
    values: FloatArray,
    dtype: DType,
    torch_answers: tuple[FloatArray, FloatArray],
) -> tuple[float, float]:
    """The largest share of the radius that an evaluation took, for values and for derivatives."""
    largest = [0.0, 0.0]
    for value, y, slope in zip(values.tolist(), *(answers.tolist() for answers in torch_answers), strict=True):
        x = tape_of(dtype).leaf(value)
        output = formula(x)
        (outcome,) = gradient(output, [x]).outcomes
        largest[0] = max(largest[0], share(y, output.value, output.radius))
        largest[1] = max(largest[1], share(slope, outcome.values[0], outcome.radii[0]))
    return largest[0], largest[1]


def by_reciprocal(x: Tensor) -> Tensor:
    return 1 / (1 + (-x).exp())


@every_dtype
def test_sigmoid_is_exact(dtype: DType) -> None:
    """Value and derivative are those of (1 + tanh(x / 2)) / 2, also where it saturates."""
    for value in [*spread(dtype, 8.0)[:100].tolist(), *spread(dtype, 64.0)[:50].tolist(), 0.0]:
        x = tape_of(dtype).leaf(value)
        y = sigmoid(x)
        (outcome,) = gradient(y, [x]).outcomes
        with ctx.workprec(400):
            half = arb(value) / 2
            assert y.value.overlaps((1 + half.tanh()) / 2)
            assert outcome.values[0].overlaps(1 / half.cosh() ** 2 / 4)
        assert float(y.value.rad()) < 2.0**-150
        assert float(outcome.values[0].rad()) < 2.0**-150


@pytest.mark.parametrize("evaluate", [torch.sigmoid, by_reciprocal], ids=["sigmoid", "reciprocal"])
@pytest.mark.parametrize("reach", [8.0, 80.0])
@every_dtype
def test_sigmoid_is_within_its_radius(dtype: DType, reach: float, evaluate: Callable[[Tensor], Tensor]) -> None:
    """Torch's sigmoid and its derivative y (1 - y), and the same written out, take no more than the radius."""
    values = spread(dtype, reach)
    if evaluate is by_reciprocal:
        # Its exponential must not overflow, nor the product that its derivative passes.
        values = values[values > -0.4 * math.log(dtype.largest)]
    value, slope = shares(sigmoid, values, dtype, evaluated(evaluate, values, dtype))
    assert 0.1 < value <= 1.0
    assert 0.05 < slope <= 1.0


@every_dtype
def test_sigmoid_near_saturation(dtype: DType) -> None:
    """Where y rounds to 1 a derivative of 0 is right, and so is the exact one; the lower end keeps its digits."""
    u = dtype.unit_roundoff
    reach = -math.log(u) + 3.0
    for value in dtype.round(np.linspace(reach, reach + 4.0, 9)).tolist():
        high, low = (tape_of(dtype).leaf(x) for x in (value, -value))
        (above,), (below,) = (gradient(sigmoid(x), [x]).outcomes for x in (high, low))
        assert 0.0 < float(above.values[0]) < above.radii[0] < 16 * u
        assert above.values[0].overlaps(below.values[0])
        underflow = 4 * dtype.underflow
        assert below.radii[0] < 16 * u * float(below.values[0]) + underflow
        assert float(below.values[0]) > below.radii[0] - underflow


@every_dtype
def test_sigmoid_of_a_rounded_number(dtype: DType) -> None:
    """The error of what goes in passes through: tau (r - 1) with a tau that the dtype rounds."""
    values = positive(dtype)
    answers = evaluated(lambda x: torch.sigmoid(1.05 * (x - 1)), values, dtype)
    found = shares(lambda x: sigmoid(x.tape.number(1.05) * (x - 1)), values, dtype, answers)
    assert max(found) <= 1.0
    assert min(found) > 0.02


@every_dtype
def test_logarithm(dtype: DType) -> None:
    """Exact to the ball, within its radius in Torch, also next to 1, where it is small; exactly 0 at 1."""
    values = np.concatenate([positive(dtype), dtype.round(1.0 + spread(dtype, 0.125))])
    largest = 0.0
    for value, answer in zip(values.tolist(), tensor(values, dtype).log().tolist(), strict=True):
        found = log(tape_of(dtype).exact(value))
        assert found.index == -1
        with ctx.workprec(300):
            assert found.value.overlaps(arb(value).log())
        largest = max(largest, share(answer, found.value, found.radius))
    assert 0.1 < largest <= 1.0
    assert log(tape_of(dtype).exact(1.0)).is_exact_zero


@every_dtype
def test_logarithm_of_a_rounded_number(dtype: DType) -> None:
    """A number that the dtype rounds moves its logarithm by as much, relatively."""
    tape = tape_of(dtype)
    numbers = np.random.default_rng(1).uniform(0.01, 4.0, INPUTS)
    answers = tensor(dtype.round(numbers), dtype).log().tolist()
    found = [log(tape.number(number)) for number in numbers.tolist()]
    assert max(share(answer, y.value, y.radius) for answer, y in zip(answers, found, strict=True)) <= 1.0


def test_logarithm_of_an_input() -> None:
    """It takes constants only."""
    with pytest.raises(ValueError, match="constant"):
        log(tape_of(FLOAT32).leaf(0.5))


DIVISIONS: Final[dict[str, Callable[[Tensor, float], Tensor]]] = {
    "quotient": lambda x, divisor: x / divisor,
    "reciprocal": lambda x, divisor: x * (1 / divisor),
    "rounded": lambda x, divisor: x / torch.tensor(divisor, dtype=x.dtype),
    "rounded reciprocal": lambda x, divisor: x * (1 / torch.tensor(divisor, dtype=x.dtype)),
}


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("divisor", [1.05, 0.3, 4.0, 1.0])
@every_dtype
def test_division_by_a_number(dtype: DType, divisor: float, name: str) -> None:
    """As a quotient or as a product with a reciprocal, of the number or of the number that the dtype holds."""
    values = spread(dtype, 8.0)
    answers = evaluated(lambda x: DIVISIONS[name](x, divisor), values, dtype)
    found = shares(lambda x: x / x.tape.number(divisor), values, dtype, answers)
    assert max(found) <= 1.0
    x = tape_of(dtype).leaf(3.0)
    with ctx.workprec(300):
        assert (x / x.tape.number(divisor)).value.overlaps(3 / arb(divisor))


@pytest.mark.parametrize("factors", COUNTS, ids=str)
@every_dtype
def test_division_by_a_count(dtype: DType, factors: tuple[int | Fraction, ...]) -> None:
    """At once or by one factor after the other, with quotients or reciprocals."""
    values = spread(dtype, 8.0)
    count = Count.of(*factors)
    used = [[float(count.value)], [float(factor) for factor in factors], [float(f) for f in reversed(factors)]]

    def one_by_one(x: Tensor, divide: Callable[[Tensor, float], Tensor], divisors: list[float]) -> Tensor:
        for divisor in divisors:
            x = divide(x, divisor)
        return x

    for divide in DIVISIONS.values():
        for divisors in used:
            answers = evaluated(lambda x, d=divide, by=divisors: one_by_one(x, d, by), values[:200], dtype)
            assert max(shares(lambda x: x / count, values[:200], dtype, answers)) <= 1.0
    found = tape_of(dtype).leaf(1.0) / count
    assert found.value.overlaps(arb(count.value.denominator) / count.value.numerator)
