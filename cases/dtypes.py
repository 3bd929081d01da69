"""Floating-point formats: what a tensor of each dtype can hold, and how numbers are rounded to it.

Source: IEEE 754-2019 for float64, float32 and float16; bfloat16 is float32 with a significand of 8 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DType:
    """A binary floating-point format.

    `precision` counts significand bits with the hidden one; `min_exponent` is the exponent of the smallest
    normal number, `max_exponent` that of the largest.
    """

    name: str
    precision: int
    min_exponent: int
    max_exponent: int

    @property
    def unit_roundoff(self) -> float:
        """u: the largest relative error of one rounding to nearest."""
        return 2.0**-self.precision

    @property
    def accumulator_roundoff(self) -> float:
        """Unit roundoff of a sum: half types must accumulate at least in float32."""
        return min(self.unit_roundoff, 2.0**-24)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2.0 - 2.0 ** (1 - self.precision)) * 2.0**self.max_exponent

    @property
    def underflow(self) -> float:
        """Largest absolute error of one operation that underflows.

        The smallest normal number where hardware may flush subnormals to zero; half the smallest subnormal
        for float16, whose range is too short for flushing to be acceptable.
        """
        if self.name == "float16":
            return 2.0 ** (self.min_exponent - self.precision)
        return 2.0**self.min_exponent

    def round(self, values: npt.ArrayLike) -> FloatArray:
        """Round to nearest, ties to even; the result is float64 whose values this dtype holds exactly.

        Numbers too large for the dtype become infinite, as a conversion does.
        """
        exact = np.asarray(values, dtype=np.float64)
        if self.name == "float64":
            return exact.copy()
        _, exponent = np.frexp(exact)
        # frexp's significand is in [1/2, 1): the last bit weighs 2^(exponent - precision).
        last_bit = np.maximum(exponent, self.min_exponent + 1) - self.precision
        with np.errstate(invalid="ignore", over="ignore"):
            rounded = np.ldexp(np.rint(np.ldexp(exact, -last_bit)), last_bit)
            rounded = np.where(np.abs(rounded) > self.largest, np.copysign(np.inf, rounded), rounded)
        return np.where(np.isfinite(exact), rounded, exact)

    def holds(self, values: npt.ArrayLike) -> bool:
        """Whether every value is exactly representable."""
        exact = np.asarray(values, dtype=np.float64)
        return bool(np.array_equal(self.round(exact), exact))

    def ulp(self, values: npt.ArrayLike) -> FloatArray:
        """Distance between neighbouring numbers at `values` (the subnormal spacing at 0)."""
        exact = np.asarray(values, dtype=np.float64)
        _, exponent = np.frexp(exact)
        # frexp gives 0 the exponent of numbers near 1.
        exponent = np.where(exact == 0, self.min_exponent + 1, np.maximum(exponent, self.min_exponent + 1))
        spacing: FloatArray = np.ldexp(1.0, exponent - self.precision)
        return spacing

    def spacing(self, value: float) -> float:
        """`ulp` of one number."""
        exponent = math.frexp(value)[1] if value else self.min_exponent + 1
        return math.ldexp(1.0, max(exponent, self.min_exponent + 1) - self.precision)


FLOAT64: Final = DType("float64", precision=53, min_exponent=-1022, max_exponent=1023)
FLOAT32: Final = DType("float32", precision=24, min_exponent=-126, max_exponent=127)
BFLOAT16: Final = DType("bfloat16", precision=8, min_exponent=-126, max_exponent=127)
FLOAT16: Final = DType("float16", precision=11, min_exponent=-14, max_exponent=15)

DTYPES: Final = {dtype.name: dtype for dtype in (FLOAT64, FLOAT32, BFLOAT16, FLOAT16)}
