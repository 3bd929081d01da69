"""Local derivatives between arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from oracles.batched.double_double import Floats, Value

if TYPE_CHECKING:
    from oracles.batched.array import Array

Flags = npt.NDArray[np.bool_]

ROOM: Final = 1.05
"""Tops are generous: by more than a few roundings of the coarsest dtype, and eta times the gain."""

BEYOND: Final = 1e290
"""Values near the end of float64 are left to the literal oracle; a bound may be infinite."""


class Edge(NamedTuple):
    """A local derivative with respect to `parent`, as in `oracles.scalar.Edge`.

    `kind` is "sign" (derivative is +1 or -1), "slope", "share" (passed where `open`; undecided where `doubt`),
    "gather" (back from the tokens of a completion) or "spread" (back to them).
    """

    kind: str
    parent: Array
    sign: Floats = 1.0
    derivative: Value = (1.0, 0.0)
    size: Floats = 1.0
    radius: Floats = 0.0
    gain: Floats = 1.0
    steps: Floats = 1.0
    u: Floats = 0.0
    top: float = 1.0
    open: Flags | None = None
    second: bool = False


def has_zero(values: Floats) -> bool:
    """Whether any number is 0, or NaN, where none is negative."""
    if isinstance(values, np.ndarray):
        # The minimum is found several times faster than zeros are counted.
        return not np.minimum.reduce(values, axis=None) > 0.0
    return values == 0.0


def absolute(values: Floats) -> Floats:
    """Absolute values."""
    return np.abs(values) if isinstance(values, np.ndarray) else abs(values)
