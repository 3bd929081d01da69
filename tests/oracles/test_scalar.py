"""The scalar that formulas run on: exact values, and the roundings it charges for."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from flint import arb, ctx

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import BFLOAT16, DTYPES, FLOAT16, FLOAT32, FLOAT64, DType
from cases.spec import Level, LossSpec, LossType
from oracles.contract import Contract
from oracles.expectation import expect
from oracles.operations import exp, stop_gradient, stored, total
from oracles.scalar import Scalar
from oracles.sweep import gradient
from oracles.tape import Tape

every_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))


def tape_of(dtype: DType = FLOAT32) -> Tape:
    return Tape(Contract.of(dtype), dtype.holds)


def slopes(output: Scalar, *leaves: Scalar) -> list[arb]:
    """Derivatives of a formula in which nothing is undecided."""
    (outcome,) = gradient(output, leaves).outcomes
    return list(outcome.values)


FORMULAS: dict[str, tuple[Callable[..., Scalar], Callable[..., arb]]] = {
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "difference": (lambda a, b: a - b, lambda a, b: a - b),
    "negation": (lambda a, b: -a + b, lambda a, b: b - a),
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "quotient": (lambda a, b: (a + b) / 7, lambda a, b: (a + b) / 7),
    "exp": (lambda a, b: exp(a - b), lambda a, b: (a - b).exp()),
    "numbers": (lambda a, b: 1 - 0.1 * a + b * 3, lambda a, b: 1 - arb(0.1) * a + 3 * b),
    "total": (lambda a, b: total([a, b, a * b, exp(a)], a.tape), lambda a, b: a + b + a * b + a.exp()),
}


@pytest.mark.parametrize("name", FORMULAS)
@every_dtype
def test_values_are_exact(name: str, dtype: DType) -> None:
    """The value is the real number of the formula on these inputs, whatever dtype is asked about."""
    ours, theirs = FORMULAS[name]
    random = np.random.default_rng(3)
    for a, b in dtype.round(random.uniform(-4.0, 4.0, (50, 2))).tolist():
        tape = tape_of(dtype)
        found = ours(tape.leaf(a), tape.leaf(b)).value
        with ctx.workprec(300):
            expected = theirs(arb(a), arb(b))
        assert found.overlaps(expected)
        assert found.rad() < 2.0**-140


@every_dtype
def test_product_with_exact_zero_is_exact(dtype: DType) -> None:
    """0 times anything is 0 without error: no radius, and no gradient through a constant 0."""
    tape = tape_of(dtype)
    x = tape.leaf(float(dtype.round(20.3)))
    for product in (tape.exact(0.0) * exp(x), exp(x) * tape.exact(0.0), exp(x) * 0.0):
        assert product.is_exact_zero
        assert slopes(product + x, x) == [1]
    # A 0 among the inputs is exact too, but its derivative is the other factor.
    zero = tape.leaf(0.0)
    product = zero * exp(x)
    assert product.is_exact_zero
    assert slopes(product, zero)[0].overlaps(exp(x).value)


@every_dtype
def test_ratio_to_itself_is_exactly_one(dtype: DType) -> None:
    """exp(logp - sg(logp)) is 1 with radius 0, and its derivative is 1."""
    tape = tape_of(dtype)
    for value in dtype.round([-0.1, -1.0, -37.7]).tolist():
        logp = tape.leaf(value)
        ratio = exp(logp - stop_gradient(logp))
        assert (ratio.value, ratio.mid, ratio.radius) == (1, 1.0, 0.0)
        assert slopes(ratio, logp) == [1]


def test_numbers_round_to_the_dtype() -> None:
    """A hyper-parameter that the dtype holds is exact; any other may be off by its unit roundoff."""
    for dtype in DTYPES.values():
        tape = tape_of(dtype)
        assert tape.number(0.25).radius == 0.0
        assert tape.number(0.1).radius == (0.0 if dtype is FLOAT64 else 0.1 * dtype.unit_roundoff)
        assert tape.exact(0.1).radius == 0.0
    # 257 has nine significant bits: a count that bfloat16 rounds, and float32 does not.
    divided = {dtype: (tape_of(dtype).leaf(1.0) / 257).radius * 257 for dtype in (FLOAT32, BFLOAT16)}
    assert divided[FLOAT32] == pytest.approx(2 * FLOAT32.unit_roundoff)
    assert divided[BFLOAT16] == pytest.approx(3 * BFLOAT16.unit_roundoff)


def test_difference_of_inputs_is_rounded_once() -> None:
    """One rounding of the result, nothing for the size of the operands; none where an operand is 0."""
    tape = tape_of()
    a, b = tape.leaf(-1.0), tape.leaf(-1.125)
    assert (a - b).radius == FLOAT32.unit_roundoff * 0.125
    assert (a - tape.exact(0.0)).radius == 0.0
    # A rounded operand may have been added up in another order: charged on the sizes.
    assert ((a * 3.0) - 3.0 * b).radius > FLOAT32.unit_roundoff * 6.0


def test_stop_gradient_is_the_same_number_as_a_constant() -> None:
    """Value and radius stay, the derivative does not pass."""
    tape = tape_of()
    x = tape.leaf(-0.5)
    weight = exp(x)
    constant = stop_gradient(weight)
    assert (constant.value, constant.radius, constant.index) == (weight.value, weight.radius, -1)
    found = slopes(constant * x, x)[0]
    assert found.overlaps(weight.value)
    assert slopes(constant * constant, x) == [0]


@pytest.mark.parametrize("groups", [(12,), (6, 6), (1, 11), (3, 4, 5), (1,) * 12])
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32])
def test_sums_are_charged_in_any_order(dtype: DType, groups: tuple[int, ...]) -> None:
    """Totals of totals charge at least what one flat sum of all terms needs: (n - 1) u on the sizes."""
    values = dtype.round(np.random.default_rng(1).uniform(-1.0, 1.0, 12)).tolist()
    tape = tape_of(dtype)
    leaves = iter([tape.leaf(value) for value in values])
    parts = [total([next(leaves) for _ in range(count)], tape) for count in groups]
    nested = total(parts, tape)
    assert nested.terms == 12
    needed = 11 * dtype.unit_roundoff * math.fsum(abs(value) for value in values)
    assert nested.radius >= needed
    assert nested.radius < 1.001 * needed


def test_no_order_of_addition_exceeds_the_radius() -> None:
    """Every order of five float32 terms that nearly cancel stays within it, some of them by little."""
    values = np.array([1.1, 1e7, -1e7, 3.3, 0.7], dtype=np.float32)
    tape = tape_of()
    summed = total([tape.leaf(float(value)) for value in values], tape)
    errors = []
    for order in permutations(values):
        rounded = np.float32(0.0)
        for value in order:
            rounded = np.float32(rounded + value)
        errors.append(abs(float(arb(float(rounded)) - summed.value)))
    assert 0.01 * summed.radius < max(errors) <= summed.radius


def test_half_types_add_up_in_float32_and_store_the_result() -> None:
    """The terms of a half-type sum round like float32, its result like the half type."""
    for dtype in (BFLOAT16, FLOAT16):
        tape = tape_of(dtype)
        summed = total([tape.leaf(1.0), tape.leaf(2.0), tape.leaf(-2.5)], tape)
        stored_once = dtype.unit_roundoff * 0.5
        assert stored_once < summed.radius < stored_once + 3 * 2.0**-24 * 5.5
        assert total([tape.leaf(1.0)], tape).radius == 0.0


def test_stored_terms_are_not_reordered() -> None:
    """What is evaluated by itself counts as one term of its own size in sums outside."""
    tape = tape_of()
    x = tape.leaf(2.0)
    inner = total([x, tape.leaf(-1.75), exp(x)], tape)
    kept = stored(inner)
    assert (kept.value, kept.radius, kept.index) == (inner.value, inner.radius, inner.index)
    assert (kept.terms, kept.magnitude) == (1, abs(inner.mid))
    assert (inner.terms, inner.magnitude) == (3, pytest.approx(2.0 + 1.75 + math.exp(2.0)))


def test_sum_of_nothing_is_exactly_zero() -> None:
    """An empty total is the constant 0."""
    empty = total([], tape_of())
    assert empty.is_exact_zero
    assert empty.index == -1


@pytest.mark.parametrize(("dtype", "meeting"), [(FLOAT32, 3), (BFLOAT16, 3), (FLOAT32, 60), (BFLOAT16, 60)])
def test_contributions_to_a_gradient_are_added_up(dtype: DType, meeting: int) -> None:
    """What meets at one input is rounded as it is added: pairwise in the dtype, or as a sum that is stored."""
    tape = tape_of(dtype)
    x = tape.leaf(1.0)
    factors = dtype.round(np.random.default_rng(2).uniform(0.5, 2.0, meeting)).tolist()
    (outcome,) = gradient(total([x * tape.exact(factor) for factor in factors], tape), [x]).outcomes
    size = math.fsum(factors)
    assert outcome.values[0] == size
    additions = (meeting - 1) * (dtype.unit_roundoff if meeting == 3 else dtype.accumulator_roundoff)
    stored_once = dtype.unit_roundoff
    assert outcome.radii[0] >= (additions + stored_once) * size
    assert outcome.radii[0] <= 1.1 * (additions + 4 * stored_once) * size


def overflowing(level: Level, log_ratio: float, advantage: float = -1.0) -> Case:
    """Two completions of three tokens; the second token of the first has this log-ratio."""
    old_logps = np.full((2, 3), -1.0)
    old_logps[0, 1] -= log_ratio
    mask = np.array([[True, True, False], [True, True, True]])
    batch = Batch(FLOAT32, np.full((2, 3), -1.0), old_logps, None, np.full(2, advantage), mask)
    return Case(batch, LossSpec(LossType.GRPO, level))


def test_overflow_of_a_token_is_its_own() -> None:
    """At token level only the token whose ratio exceeds the dtype is flagged, and the loss."""
    found = expect(overflowing(Level.TOKEN, 89.0))
    assert np.argwhere(found.gradient_overflows).tolist() == [[0, 1]]
    assert found.loss_overflows
    fine = expect(overflowing(Level.TOKEN, 80.0))
    assert not fine.gradient_overflows.any()
    assert not fine.loss_overflows


def test_overflow_of_a_completion_is_its_rows() -> None:
    """At sequence level every unmasked token of the completion is flagged; the other completion is not."""
    found = expect(overflowing(Level.SEQUENCE, 178.0))
    assert np.argwhere(found.gradient_overflows).tolist() == [[0, 0], [0, 1]]
    assert found.loss_overflows


def test_overflow_of_the_loss_alone() -> None:
    """A sum that overflows spoils the loss; its terms still have their derivatives."""
    logps = np.full((1, 2), -1.0)
    advantages = np.full(1, float(np.float32(2.5e38)))
    batch = Batch(FLOAT32, logps, logps, None, advantages, np.ones((1, 2), dtype=bool))
    found = expect(Case(batch, LossSpec(LossType.BNPO)))
    assert found.loss_overflows
    assert not found.gradient_overflows.any()
    assert found.loss.high[0] == -advantages[0]


def test_overflow_on_the_way_back() -> None:
    """A gradient whose intermediate exceeds the dtype is flagged though the loss is finite."""
    tape = tape_of(FLOAT16)
    x = tape.leaf(1.0)
    product = x * tape.exact(6e4) * tape.exact(2.0**-4) * tape.exact(2.0)
    slopes(product, x)
    assert not tape.overflowing
    tape = tape_of(FLOAT16)
    x = tape.leaf(2.0**-10)
    product = x * tape.exact(6e4) * tape.exact(2.0)
    slopes(product, x)
    assert tape.overflowing == {x.index}
    assert not tape.overflows
