"""Numbers as unevaluated sums of two float64, and the elementary functions on them.

Sources: Dekker 1971, A floating-point technique for extending the available precision; Joldes, Muller, Popescu
2017, Tight and rigorous error bounds for basic building blocks of double-word arithmetic. Every operation here is
within `UNIT` of the exact result, relative to it; exp, log and quotient within twice that.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from flint import arb, ctx

from cases.dtypes import FloatArray

Floats = FloatArray | float
Value = tuple[Floats, Floats]
"""high + low; low is the number 0.0 where high alone is exact."""

UNIT: Final = 2.0**-98

_SPLITTER: Final = 2.0**27 + 1.0
_STEPS: Final = 1024
"""exp is tabled at the multiples of ln 2 / _STEPS."""

_LOWEST_EXPONENT: Final = -1000.0
"""Below it e^x is nothing, even as a subnormal number."""


def two_sum(a: Floats, b: Floats) -> Value:
    """a + b, exactly."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _fast_two_sum(a: Floats, b: Floats) -> Value:
    s = a + b
    return s, b - (s - a)


def two_product(a: Floats, b: Floats) -> Value:
    """a * b, exactly while neither overflows nor underflows."""
    p = a * b
    t = _SPLITTER * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = _SPLITTER * b
    b_high = t - (t - b)
    b_low = b - b_high
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def add(a: Value, b: Value) -> Value:
    s, e = two_sum(a[0], b[0])
    if is_single(a) and is_single(b):
        return s, e
    t, f = two_sum(a[1], b[1])
    s, e = _fast_two_sum(s, e + t)
    return _fast_two_sum(s, e + f)


def subtract(a: Value, b: Value) -> Value:
    return add(a, (-b[0], -b[1]))


def multiply(a: Value, b: Value) -> Value:
    p, e = two_product(a[0], b[0])
    if not is_single(b):
        e = e + a[0] * b[1]
    if not is_single(a):
        e = e + a[1] * b[0]
    return _fast_two_sum(p, e)


def divide(a: Value, b: Value) -> Value:
    first = a[0] / b[0]
    rest = subtract(a, multiply(b, (first, 0.0)))
    second = rest[0] / b[0]
    rest = subtract(rest, multiply(b, (second, 0.0)))
    high, low = _fast_two_sum(first, second)
    return _fast_two_sum(high, low + rest[0] / b[0])


def scaled(a: Value, factor: Floats) -> Value:
    """a times 0 or a power of two with a sign, exactly."""
    return a[0] * factor, 0.0 if is_single(a) else a[1] * factor


def exp(x: Value) -> Value:
    """e^x: a table of 2^(j / 1024) times a Taylor series of what is left, at most 0.00034."""
    table_high, table_low = _table()
    first, second, third = _steps()
    high = np.maximum(x[0], _LOWEST_EXPONENT)
    low = np.where(high == x[0], x[1], 0.0)
    steps = np.rint(high * (_STEPS / np.log(2.0)))
    r = add((high - steps * first, 0.0), (-(steps * second), low))
    r = subtract(r, two_product(steps, third))
    h = r[0]
    tail = ((((1 / 40320) * h + 1 / 5040) * h + 1 / 720) * h + 1 / 120) * h + 1 / 24
    series = add(_sixth(), (h * tail, 0.0))
    series = add((0.5, 0.0), multiply(series, r))
    series = add((1.0, 0.0), multiply(series, r))
    series = multiply(series, r)
    whole = steps.astype(np.int64)
    row = whole % _STEPS
    entry = table_high[row], table_low[row]
    found = add(entry, multiply(entry, series))
    power = (whole // _STEPS).astype(np.int32)
    return np.ldexp(found[0], power), np.ldexp(found[1], power)


def log(x: Value) -> Value:
    """The natural logarithm: one Newton step from that of float64."""
    start = np.log(x[0])
    rest = subtract(multiply(x, exp((-start, np.zeros_like(start)))), (1.0, 0.0))
    square = rest[0] * rest[0] / 2
    return add((start, 0.0), subtract(rest, (square, 0.0)))


def is_single(a: Value) -> bool:
    """Whether high alone is known to be exact."""
    return type(a[1]) is float and a[1] == 0.0


@cache
def _table() -> tuple[FloatArray, FloatArray]:
    with ctx.workprec(160):
        entries = [_pair((arb(2).log() * j / _STEPS).exp()) for j in range(_STEPS)]
    return np.array([entry[0] for entry in entries]), np.array([entry[1] for entry in entries])


@cache
def _steps() -> tuple[float, float, float]:
    """ln 2 / 1024 in three parts, of which the first two have so few bits that multiples of them are exact."""
    with ctx.workprec(200):
        rest = arb(2).log() / _STEPS
        parts = []
        for _ in range(2):
            mantissa, exponent = np.frexp(float(rest))
            parts.append(float(np.ldexp(np.rint(mantissa * 2.0**32), exponent - 32)))
            rest -= arb(parts[-1])
        return parts[0], parts[1], float(rest)


@cache
def _sixth() -> tuple[float, float]:
    with ctx.workprec(160):
        return _pair(arb(1) / 6)


def _pair(value: arb) -> tuple[float, float]:
    high = float(value)
    return high, float(value - arb(high))
