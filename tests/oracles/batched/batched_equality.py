"""Whether the batched oracle expects what the literal one does."""

from __future__ import annotations

from typing import Final

import numpy as np

from cases.dtypes import DType, FloatArray
from oracles.expectation import Exact, Expectation

LOOSER: Final = 1.0 + 2.0**-25
"""How much larger the batched bound may be: what its own arithmetic adds."""

NEARER: Final = 2.0**-28
"""How far exact values may be apart, in bounds."""

NEARER_IN_FLOAT64: Final = 2.0**-48
"""The same in float64, where values are two float64: some 30 digits."""


def assert_same(literal: Expectation, batched: Expectation, dtype: DType) -> None:
    """Values to the batched arithmetic's own error, bounds not smaller and hardly larger, the same flags."""
    assert batched.loss_overflows == literal.loss_overflows
    assert (batched.gradient_overflows == literal.gradient_overflows).all()
    assert batched.undecided == literal.undecided
    assert len(batched.gradients) == len(literal.gradients)
    _same(literal.loss, batched.loss, dtype)
    for ours, theirs in zip(literal.gradients, batched.gradients, strict=True):
        _same(ours, theirs, dtype)
    _same_hull(literal, batched)
    assert len(batched.others) == len(literal.others)
    for one, other in zip(literal.others, batched.others, strict=True):
        assert_same(one, other, dtype)


def _same(literal: Exact, batched: Exact, dtype: DType) -> None:
    assert batched.high.shape == literal.high.shape
    known = np.isfinite(literal.bound)
    assert (np.isfinite(batched.bound) == known).all()
    ours, theirs = literal.bound[known], batched.bound[known]
    # Numbers among the subnormal ones are not held to their last digit.
    assert (theirs >= ours * (1.0 - 2.0**-40)).all(), (ours, theirs)
    assert (theirs <= ours * LOOSER + 1e-320).all(), (ours, theirs)
    apart = _apart(literal, batched)[known]
    nearer = NEARER_IN_FLOAT64 if dtype.name == "float64" else NEARER
    assert (apart <= nearer * ours).all(), (apart, ours)


def _apart(literal: Exact, batched: Exact) -> FloatArray:
    with np.errstate(invalid="ignore"):
        # Infinite less infinite, beyond float64, where the bound is infinite too.
        apart: FloatArray = np.abs((batched.high - literal.high) + (batched.low - literal.low))
    return apart


def _same_hull(literal: Expectation, batched: Expectation) -> None:
    assert (batched.hull is None) == (literal.hull is None)
    if literal.hull is None or batched.hull is None:
        return
    bound = np.max([exact.bound for exact in literal.gradients], axis=0)
    for ours, theirs in zip(literal.hull, batched.hull, strict=True):
        entered = ~np.isnan(ours)
        assert (np.isnan(theirs) == ~entered).all()
        # A hull's ends are rounded to float64.
        slack = NEARER * bound + 2.0 * np.spacing(np.abs(ours))
        assert (np.abs(ours - theirs)[entered] <= slack[entered]).all()
