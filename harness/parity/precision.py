"""The precision that an execution effectively computes in, read off its errors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from harness.parity.judged import Judged
from harness.parity.questions import Purpose

QUANTILE: Final = 0.95

LOST_TO_CANCELLATION: Final = 3.0
"""Bits by which the errors of correct implementations stay below their bounds, at that quantile."""

_ENOUGH: Final = 16


def effective_bits(cases: Iterable[Judged]) -> float:
    """Significand bits of a computation whose errors would be these; NaN where there are too few errors to say.

    All bounds are proportional to the unit roundoff u. If errors are the q-th part of their bounds, at a high
    quantile, those of a computation whose unit roundoff is q u (and 2^3 as much) would look alike.
    """
    ratios: list[float] = []
    precision = 0
    for one in cases:
        if one.question.purpose is not Purpose.ORDINARY or one.outcome.gradient is None:
            continue
        precision = one.case.batch.dtype.precision
        expectation = one.expectation
        if len(expectation.gradients) > 1 or expectation.others:
            continue
        exact = expectation.gradients[0]
        held = (exact.bound > 0.0) & np.isfinite(exact.bound) & np.isfinite(one.outcome.gradient)
        ratios.extend((exact.error(one.outcome.gradient)[held] / exact.bound[held]).tolist())
    if len(ratios) < _ENOUGH:
        return math.nan
    part = float(np.quantile(ratios, QUANTILE))
    if part == 0.0:
        return math.inf
    return precision - math.log2(part) - LOST_TO_CANCELLATION
