"""Rounding to a dtype is what NumPy and PyTorch do when they convert to it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cases.dtypes import BFLOAT16, DTYPES, FLOAT16, FLOAT32, FLOAT64, DType

NUMPY = {FLOAT32: np.float32, FLOAT16: np.float16}
every_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))


def random_doubles(count: int) -> np.ndarray:
    """Finite float64 of every exponent, and as many around the range of small dtypes."""
    random = np.random.default_rng(6)
    bits = random.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    near = random.uniform(-1.0, 1.0, count) * 2.0 ** random.integers(-160, 130, count)
    small = random.uniform(-1.0, 1.0, count) * 2.0 ** random.integers(-30, 18, count)
    return np.concatenate([bits[np.isfinite(bits)], near, small, [0.0, -0.0]])


def ties(dtype: DType) -> np.ndarray:
    """Numbers half way between two neighbours, and one float64 to either side; subnormals among them."""
    random = np.random.default_rng(7)
    odd = 2.0 * random.integers(-(2**dtype.precision), 2**dtype.precision, 20_000) + 1.0
    lowest, highest = dtype.min_exponent - dtype.precision, dtype.max_exponent - dtype.precision
    half_way = odd * 2.0 ** random.integers(lowest, highest, odd.size)
    beside = [np.nextafter(half_way, direction) for direction in (-np.inf, np.inf)]
    edge = (2.0 - 2.0**-dtype.precision) * 2.0**dtype.max_exponent
    edges = [edge, np.nextafter(edge, 0.0), np.nextafter(edge, np.inf), dtype.largest]
    return np.concatenate([half_way, *beside, edges, np.negative(edges)])


def same(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Equal to the bit, the sign of zero included."""
    return ours.tobytes() == theirs.astype(np.float64).tobytes()


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16], ids=["float32", "float16"])
def test_rounding_is_numpys(dtype: DType) -> None:
    """Random numbers, ties, subnormals and what overflows round as NumPy rounds them."""
    for values in (random_doubles(200_000), ties(dtype)):
        with np.errstate(over="ignore", under="ignore"):
            expected = values.astype(NUMPY[dtype])
        assert same(dtype.round(values), expected)
        assert np.isinf(expected).any()
        assert (np.abs(expected[expected != 0]) < 2.0**dtype.min_exponent).any()


def test_rounding_to_bfloat16_is_torchs() -> None:
    """Numbers of float32 round as PyTorch rounds them (it converts a float64 by way of float32)."""
    for values in (random_doubles(200_000), ties(BFLOAT16)):
        singles = FLOAT32.round(values)
        expected = torch.tensor(singles, dtype=torch.float32).to(torch.bfloat16).double().numpy()
        assert same(BFLOAT16.round(singles), expected)
        assert np.isinf(expected).any()


def test_bfloat16_is_rounded_once() -> None:
    """A float64 just above a tie goes up; by way of float32 it would become the tie and go down."""
    value = 1.0 + 2.0**-8 + 2.0**-40
    assert BFLOAT16.round(value) == 1.0 + 2.0**-7
    assert BFLOAT16.round(FLOAT32.round(value)) == 1.0


@every_dtype
def test_rounding_twice_changes_nothing(dtype: DType) -> None:
    """What comes out is held exactly, and its nearest."""
    values = random_doubles(20_000)
    rounded = dtype.round(values)
    finite = np.isfinite(rounded)
    assert same(dtype.round(rounded), rounded)
    assert dtype.holds(rounded)
    error = np.abs(rounded - values)[finite]
    assert (error <= dtype.ulp(rounded[finite]) / 2).all()


@every_dtype
def test_not_finite_stays(dtype: DType) -> None:
    """Infinities and NaN pass through."""
    values = np.array([np.inf, -np.inf, np.nan])
    assert np.array_equal(dtype.round(values), values, equal_nan=True)


def test_float64_is_a_copy() -> None:
    """Nothing is rounded to float64, and the result is the caller's own."""
    values = random_doubles(100)
    rounded = FLOAT64.round(values)
    assert same(rounded, values)
    assert not np.shares_memory(rounded, values)


@every_dtype
def test_shapes_stay(dtype: DType) -> None:
    """Numbers, lists and arrays come back in their shape as float64."""
    for values in (0.1, [0.1], [[0.1, 0.2]], np.zeros((0, 3))):
        rounded = dtype.round(values)
        assert rounded.shape == np.shape(values)
        assert rounded.dtype == np.float64


@every_dtype
def test_holds(dtype: DType) -> None:
    """Exactly representable numbers are held, one bit more is not; one bad number spoils the lot."""
    fine = 1.0 + 2.0 ** (1 - dtype.precision)
    assert dtype.holds(fine)
    assert dtype.holds([fine, 0.0, -dtype.largest, 2.0**dtype.min_exponent])
    if dtype is not FLOAT64:
        assert not dtype.holds([fine, 1.0 + 2.0**-dtype.precision])
        assert not dtype.holds(2.0 * dtype.largest)
        # The smallest subnormal, and half of it.
        smallest = 2.0 ** (dtype.min_exponent - dtype.precision + 1)
        assert dtype.holds(smallest)
        assert not dtype.holds(smallest / 2)


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, FLOAT16], ids=["float64", "float32", "float16"])
def test_ulp_is_numpys_spacing(dtype: DType) -> None:
    """The distance to the next number away from zero, among subnormals too."""
    values = dtype.round(random_doubles(20_000))
    values = values[(values != 0.0) & (np.abs(values) < dtype.largest)]
    assert (np.abs(values) < 2.0**dtype.min_exponent).any()
    with np.errstate(under="ignore", over="ignore"):
        expected = np.spacing(np.abs(values).astype(NUMPY.get(dtype, np.float64)))
    assert same(dtype.ulp(values), expected)


def test_ulp_of_bfloat16_is_the_next_number() -> None:
    """The distance between neighbouring bit patterns of PyTorch's bfloat16."""
    patterns = torch.arange(1, 0x7F7F, dtype=torch.int16)
    values = patterns.view(torch.bfloat16).double().numpy()
    following = (patterns + 1).view(torch.bfloat16).double().numpy()
    assert same(BFLOAT16.ulp(values), following - values)
    assert same(BFLOAT16.ulp(-values), following - values)


@every_dtype
def test_constants_are_torchs(dtype: DType) -> None:
    """Unit roundoff, range and subnormals agree with PyTorch's description of the dtype."""
    info = torch.finfo(getattr(torch, dtype.name))
    assert dtype.unit_roundoff == info.eps / 2
    assert dtype.largest == info.max
    assert 2.0**dtype.min_exponent == info.tiny
    # Half the smallest subnormal where subnormals are kept, all of the normal range where they may be flushed.
    assert dtype.underflow == (2.0**-25 if dtype is FLOAT16 else info.tiny)
    assert dtype.accumulator_roundoff == min(dtype.unit_roundoff, 2.0**-24)
