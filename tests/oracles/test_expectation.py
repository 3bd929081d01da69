"""What is expected of an implementation: exact numbers in two float64, with a bound that depends on the dtype."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from bare_cases import bare_case
from closed_forms import LOSSES, closed_form
from flint import arb, ctx

from cases.batch import Batch
from cases.case import Case
from cases.descriptions import Advantage, Bounds, Description, Layout, Ratio, Reference, Row
from cases.dtypes import BFLOAT16, DTYPES, FLOAT16, FLOAT32, FLOAT64, DType
from cases.spec import Level, LossSpec, LossType
from oracles.expectation import Exact, expect

every_loss = pytest.mark.parametrize("loss_type", LOSSES)
every_level = pytest.mark.parametrize("level", Level)

RAGGED = Description(
    rows=(
        Row(Layout.HOLES, 3, (Ratio.INSIDE, Ratio.ABOVE_HIGH), reference=Reference.NEAR),
        Row(Layout.EMPTY),
        Row(Layout.FULL, 1, (Ratio.BELOW_LOW, Ratio.INSIDE, Ratio.FAR_ABOVE), advantage=Advantage.NEGATIVE),
    ),
    columns=5,
    bounds=Bounds.CLIP_HIGHER,
    seed=4,
)


def ragged(loss_type: LossType, level: Level, dtype: DType, beta: float = 0.04) -> Case:
    return bare_case(RAGGED, dtype, level, loss_type, beta)


@every_level
@every_loss
@pytest.mark.parametrize("beta", [0.0, 0.04])
def test_batch_without_tokens(loss_type: LossType, level: Level, beta: float) -> None:
    """0 / 0 is 0: loss and gradient are exactly 0 and rounding has no part in it."""
    empty = Description(rows=(Row(Layout.EMPTY),) * 2, columns=3)
    found = expect(bare_case(empty, FLOAT32, level, loss_type, beta))
    (gradient,) = found.gradients
    for exact, shape in ((found.loss, (1,)), (gradient, (2, 3))):
        assert exact.high.shape == shape
        assert (np.array([exact.high, exact.low, exact.bound]) == 0.0).all()
    assert not found.undecided
    assert found.hull is None
    assert not found.loss_overflows
    assert not found.gradient_overflows.any()


@every_level
@every_loss
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_masked_positions_are_exactly_zero(loss_type: LossType, level: Level, dtype: DType) -> None:
    """Nothing but 0 is right at a masked position; every other element has room for rounding."""
    case = ragged(loss_type, level, dtype)
    found = expect(case)
    for gradient in found.gradients:
        masked = ~case.batch.mask
        for numbers in (gradient.high, gradient.low, gradient.bound):
            assert numbers.shape == case.batch.mask.shape
            assert (numbers[masked] == 0.0).all()
        assert (gradient.bound[case.batch.mask] > 0.0).all()
        assert (gradient.high[case.batch.mask] != 0.0).all()


@every_level
@every_loss
def test_dtype_changes_the_bound_and_not_the_value(loss_type: LossType, level: Level) -> None:
    """The same numbers asked about in a finer dtype have the same answer with a smaller bound."""
    coarse = ragged(loss_type, level, BFLOAT16)
    found = {
        dtype: expect(replace(coarse, batch=replace(coarse.batch, dtype=dtype)))
        for dtype in (BFLOAT16, FLOAT32, FLOAT64)
    }
    for coarser, finer in ((BFLOAT16, FLOAT32), (FLOAT32, FLOAT64)):
        assert found[coarser].loss.high == found[finer].loss.high
        # The two roundoffs are a factor of 2^16 and 2^29 apart.
        assert found[coarser].loss.bound > 2.0**10 * found[finer].loss.bound
        ours, theirs = found[coarser].gradients[-1], found[finer].gradients[-1]
        if found[coarser].undecided or found[finer].undecided:
            continue
        assert (ours.high == theirs.high).all()
        unmasked = coarse.batch.mask
        assert (ours.bound[unmasked] > 2.0**10 * theirs.bound[unmasked]).all()


def test_float16_may_underflow() -> None:
    """float16 has room for underflow where the others have none worth speaking of."""
    tiny = Description(rows=(Row(ratios=(Ratio.INSIDE,), advantage=Advantage.TINY),), columns=1)
    case = bare_case(tiny, FLOAT16, Level.TOKEN, LossType.GRPO, 0.0)
    in_float16 = expect(case)
    in_float32 = expect(replace(case, batch=replace(case.batch, dtype=FLOAT32)))
    assert in_float16.loss.bound[0] >= FLOAT16.underflow
    assert in_float32.loss.bound[0] < 1e-3 * FLOAT16.underflow


@every_level
@every_loss
def test_two_float64_hold_twice_the_digits(loss_type: LossType, level: Level) -> None:
    """high is the nearest float64, and high + low is as good as 100 bits."""
    case = ragged(loss_type, level, FLOAT64)
    found, closed = expect(case), closed_form(case)
    pairs = [(found.loss.high[0], found.loss.low[0], closed.loss)]
    if not found.undecided:
        exact = found.gradients[0]
        pairs += [(exact.high[at], exact.low[at], slope) for at, slope in closed.gradient.items()]
    for high, low, expected in pairs:
        with ctx.workprec(256):
            error = abs(arb(float(high)) + arb(float(low)) - expected.value)
            assert error < expected.size * 2.0**-100
        assert high == float(expected.value)
        assert abs(low) <= np.spacing(abs(high)) / 2


def test_errors_are_exact_beyond_float64() -> None:
    """The error of an answer is right where subtracting two float64 would say 0, and to its last digits."""
    third = Exact(np.array([1 / 3]), np.array([float(arb(1) / 3 - arb(1 / 3))]), np.array([1.0]))
    assert third.error(np.array([1 / 3]))[0] == pytest.approx(2.0**-54 / 3, rel=1e-12)
    above = np.nextafter(1 / 3, 1.0)
    assert third.error(np.array([above]))[0] == pytest.approx(2.0**-54 * (1 - 1 / 3), rel=1e-12)
    assert third.error(np.array([0.25]))[0] == pytest.approx(1 / 12, rel=1e-15)


def test_errors_of_what_is_not_finite() -> None:
    """An answer that is not finite has no finite error, and no warning."""
    exact = Exact(np.array([1.0, 1.0]), np.zeros(2), np.ones(2))
    assert not np.isfinite(exact.error(np.array([np.nan, np.inf]))).any()


def test_number_beyond_float64_has_an_infinite_bound() -> None:
    """Where the formula leaves even float64, no finite answer can be held against it."""
    batch = Batch(
        FLOAT64, np.array([[-1.0]]), np.array([[-800.0]]), None, np.array([-1.0]), np.ones((1, 1), dtype=bool)
    )
    found = expect(Case(batch, LossSpec(LossType.GRPO)))
    assert found.loss_overflows
    assert found.gradient_overflows.all()
    assert np.isinf(found.loss.bound).all()


def test_expectations_are_frozen() -> None:
    """An expectation is a value."""
    found = expect(ragged(LossType.GRPO, Level.TOKEN, FLOAT32))
    with pytest.raises(FrozenInstanceError):
        found.loss_overflows = True  # type: ignore[misc] # that is the point
    with pytest.raises(FrozenInstanceError):
        found.loss.high = np.zeros(1)  # type: ignore[misc] # that is the point
