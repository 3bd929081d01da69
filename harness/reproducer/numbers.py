"""Numbers as Python text: inputs to the bit, expected numbers with the digits that rounding leaves them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_UP, Context, Decimal, localcontext
from typing import Any, Final

import numpy as np

from cases.dtypes import FLOAT32, DType, FloatArray

WIDTH: Final = 100
"""Columns of a script."""

_MOST_DIGITS: Final = 17
_DIGITS_OF_ALLOWED: Final = 4
_FINER_THAN_BOUND: Final = 1024
# Two float64 have 106 bits, and exponents may lie far apart.
_EXACT: Final = Context(prec=800)


def literal(value: float, dtype: DType) -> str:
    """The shortest decimal of which torch makes the very same number in a dtype."""
    if math.isnan(value):
        return "torch.nan"
    if math.isinf(value):
        return "torch.inf" if value > 0 else "-torch.inf"
    for digits in range(1, _MOST_DIGITS):
        number = float(f"{value:.{digits}g}")
        # Half types are rounded at once, or by way of float32.
        if dtype.round(number) == value and dtype.round(_by_float32(number, dtype)) == value:
            return repr(number)
    return repr(float(value))


def _by_float32(number: float, dtype: DType) -> FloatArray | float:
    return FLOAT32.round(number) if dtype.precision < FLOAT32.precision else number


def expected(high: float, low: float, bound: float) -> tuple[str, str]:
    """An exact number `high + low`, all finite, as a decimal, and how far an answer may be from that decimal.

    The second is `bound` and what the decimal leaves out, rounded up in its fourth digit.
    """
    exact, number = total(high, low), high
    for digits in range(1, _MOST_DIGITS + 1):
        number = float(f"{high:.{digits}g}")
        if _EXACT.abs(_gap(number, exact)) * _FINER_THAN_BOUND <= Decimal(bound):
            break
    return repr(number), upwards(_EXACT.add(Decimal(bound), abs(_gap(number, exact))))


def _gap(number: float, exact: Decimal) -> Decimal:
    return _EXACT.subtract(Decimal(number), exact)


def total(high: float, low: float) -> Decimal:
    """The exact sum of two numbers."""
    return _EXACT.add(Decimal(high), Decimal(low))


def upwards(number: Decimal | float) -> str:
    """A number rounded up in its fourth digit."""
    return repr(float(Context(prec=_DIGITS_OF_ALLOWED, rounding=ROUND_UP).create_decimal(number)))


def interval(least: Decimal, greatest: Decimal, bound: float) -> tuple[str, str]:
    """The ends of an interval that a number may lie in, `bound` beyond both of these, rounded outwards."""
    low, high = _EXACT.subtract(least, Decimal(bound)), _EXACT.add(greatest, Decimal(bound))
    if not (low.is_finite() and high.is_finite()):
        return "-math.inf", "math.inf"
    return _outwards(low, bound, ROUND_FLOOR), _outwards(high, bound, ROUND_CEILING)


def _outwards(end: Decimal, bound: float, rounding: str) -> str:
    if bound == 0.0:
        return repr(float(end))
    # The fourth digit of the bound is the last that tells.
    last = Decimal(1).scaleb(Decimal(bound).adjusted() - _DIGITS_OF_ALLOWED + 1)
    with localcontext(_EXACT):
        return repr(float(end.quantize(last, rounding=rounding)))


def texts(values: FloatArray, dtype: DType) -> list[Any]:
    """An array of numbers of a dtype as nested lists of `literal`."""
    flat = [literal(float(value), dtype) for value in np.ravel(values)]
    nested: list[Any] = np.array(flat, dtype=object).reshape(np.shape(values)).tolist()
    return nested


def array(nested: Sequence[Any], start: int, indent: int = 0) -> str:
    """A nested list of texts as Python, on one line where it ends before `WIDTH`, else a row a line.

    `start` is the column at which it begins, `indent` that of the lines after the first, once they are indented.
    """
    flat = _flat(nested)
    if start + len(flat) <= WIDTH:
        return flat
    width = WIDTH - indent - 4
    if not _has_rows(nested):
        lines = textwrap.wrap(f"{', '.join(nested)},", width)
    else:
        # What does not fit on a line goes on below the first number.
        lines = [line for row in nested for line in textwrap.wrap(f"{_flat(row)},", width, subsequent_indent=" ")]
    return "\n".join(["[", *(f"    {line}" for line in lines), "]"])


def _flat(nested: Sequence[Any] | str) -> str:
    return nested if isinstance(nested, str) else f"[{', '.join(map(_flat, nested))}]"


def tensor(nested: Sequence[Any], start: int, *options: str) -> str:
    """`torch.tensor(...)` of nested texts with options such as "dtype=torch.float32"."""
    tail = "".join(f", {option}" for option in options)
    flat = f"torch.tensor({_flat(nested)}{tail})"
    if start + len(flat) <= WIDTH:
        return flat
    inner = array(nested, WIDTH if _has_rows(nested) else 5, indent=4)
    lines = ["torch.tensor(", *f"{inner},".splitlines(), *(f"{option}," for option in options)]
    return "\n".join([lines[0], *(f"    {line}" for line in lines[1:]), ")"])


def _has_rows(nested: Sequence[Any]) -> bool:
    return not isinstance(nested[0], str)
