"""The two arithmetics that exact values are computed in.

Either is a correct evaluation of the formula with a unit roundoff of its own, so that what it gets wrong is the
bound of the formula at that unit: at most unit / u of the bound at u.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from cases.dtypes import FloatArray
from oracles.batched import double_double as dd
from oracles.batched.double_double import Value
from oracles.contract import Contract

Starts = npt.NDArray[np.intp]

SINGLE_SUFFICES: Final = 2.0**-30
"""For contracts whose roundings are all larger than this, float64 is as good as exact."""


class Arithmetic(Protocol):
    """Operations on values. `unit` is its roundoff; exp, log and sums err as a contract of that unit allows."""

    unit: float

    def add(self, a: Value, b: Value) -> Value: ...
    def subtract(self, a: Value, b: Value) -> Value: ...
    def multiply(self, a: Value, b: Value) -> Value: ...
    def divide(self, a: Value, b: Value) -> Value: ...
    def exp(self, x: Value) -> Value: ...
    def log(self, x: Value) -> Value: ...
    def logistic(self, x: Value) -> tuple[Value, Value]:
        """1 / (1 + e^-x) and what it lacks to 1."""

    def gap(self, a: Value, b: Value) -> FloatArray:
        """a - b, to float64."""

    def sums(self, a: Value, starts: Starts) -> Value:
        """The sum of each run of elements, the runs beginning at `starts`; none is empty."""

    def fraction(self, value: Fraction) -> Value: ...


class Double:
    """float64."""

    unit = 2.0**-53

    def add(self, a: Value, b: Value) -> Value:
        return a[0] + b[0], 0.0

    def subtract(self, a: Value, b: Value) -> Value:
        return a[0] - b[0], 0.0

    def multiply(self, a: Value, b: Value) -> Value:
        return a[0] * b[0], 0.0

    def divide(self, a: Value, b: Value) -> Value:
        return a[0] / b[0], 0.0

    def exp(self, x: Value) -> Value:
        return np.exp(x[0]), 0.0

    def log(self, x: Value) -> Value:
        return np.log(x[0]), 0.0

    def logistic(self, x: Value) -> tuple[Value, Value]:
        e = np.exp(-x[0])
        return (1.0 / (1.0 + e), 0.0), (e / (1.0 + e), 0.0)

    def gap(self, a: Value, b: Value) -> FloatArray:
        difference: FloatArray = np.asarray(a[0] - b[0])
        return difference

    def sums(self, a: Value, starts: Starts) -> Value:
        return np.add.reduceat(a[0], starts), 0.0

    def fraction(self, value: Fraction) -> Value:
        return float(value), 0.0


class DoubleDouble:
    """Two float64 a number."""

    unit = dd.UNIT

    add = staticmethod(dd.add)
    subtract = staticmethod(dd.subtract)
    multiply = staticmethod(dd.multiply)
    divide = staticmethod(dd.divide)
    exp = staticmethod(dd.exp)
    log = staticmethod(dd.log)

    def logistic(self, x: Value) -> tuple[Value, Value]:
        e = dd.exp((-x[0], -x[1]))
        below = dd.add((1.0, 0.0), e)
        return dd.divide((1.0, 0.0), below), dd.divide(e, below)

    def gap(self, a: Value, b: Value) -> FloatArray:
        difference: FloatArray = np.asarray((a[0] - b[0]) + (a[1] - b[1]))
        return difference

    def sums(self, a: Value, starts: Starts) -> Value:
        highs = np.asarray(a[0]).tolist()
        lows = np.broadcast_to(a[1], np.shape(a[0])).tolist()
        ends = [*starts.tolist()[1:], len(highs)]
        pairs = [_sum(highs[start:end], lows[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
        return np.array([high for high, _ in pairs]), np.array([low for _, low in pairs])

    def fraction(self, value: Fraction) -> Value:
        high = float(value)
        return high, float(value - Fraction(high))


def _sum(highs: Sequence[float], lows: Sequence[float]) -> tuple[float, float]:
    terms = [*highs, *lows]
    high = math.fsum(terms)
    return high, math.fsum([*terms, -high])


_SINGLE: Final = Double()
_TWO: Final = DoubleDouble()


def arithmetic_for(contract: Contract) -> Arithmetic:
    """float64 where its roundings are nothing beside the contract's, otherwise two of them."""
    coarse = min(contract.u, contract.u_sum) >= SINGLE_SUFFICES
    return _SINGLE if coarse else _TWO
