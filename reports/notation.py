"""How numbers and foreign text are written where there is little room."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reports.schema import MEASURES


def compact(number: float) -> str:
    """A number in about five characters, such as 3e-8, 0.12, 532 or 1e6; NaN, not compared, is "-"."""
    if math.isnan(number):
        return "-"
    size = abs(number)
    if size == 0 or 0.01 <= size < 10:
        return f"{number:.2g}"
    if 10 <= size < 1000:
        return f"{number:.0f}"
    significand, _, exponent = f"{number:.0e}".partition("e")
    return f"{significand}e{int(exponent)}" if exponent else significand


def divergence(cell: Mapping[Any, Any], quantity: str) -> tuple[str, ...]:
    """Absolute error, ulps and error / bound of "loss" or "gradient" in one row of the table.

    Nothing but a dash where none of the three is known.
    """
    absolute, ulps, ratio = (float(cell[f"{quantity}_{measure}"]) for measure in MEASURES)
    if math.isnan(absolute) and math.isnan(ulps) and math.isnan(ratio):
        return ("-",)
    return compact(absolute), compact(ulps) + ("u" if math.isfinite(ulps) else ""), compact(ratio)


def one_line(text: str) -> str:
    """The text on one line, with everything that could steer a terminal made visible."""
    return visible(" ".join(text.split()))


def visible(line: str) -> str:
    """The line with everything that could steer a terminal, or that XML cannot hold, made visible."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
