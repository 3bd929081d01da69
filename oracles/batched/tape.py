"""The arrays of one formula in the order they were made, and what overflows among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cases.dtypes import DType, FloatArray
from oracles.batched.arithmetic import Arithmetic
from oracles.batched.array import Array
from oracles.batched.divisor import holds
from oracles.batched.double_double import Floats, Value
from oracles.batched.edge import BEYOND, ROOM, Edge, Flags, absolute
from oracles.batched.layout import Runs
from oracles.contract import Contract


class BeyondFloat64(ArithmeticError):
    """A value of the formula, or a bound, leaves float64."""


class Tape:
    """The arrays that a gradient can pass: `nodes`, in the order they were made.

    `runs` has the elements that add up to one, `owners` those of what these add up to that each case has.
    `overflows` says of which cases any intermediate exceeds the dtype, `overflowing` which tokens depend on one
    that does, None for none; `pinches` in which cases a clip is in doubt at both its bounds.
    """

    def __init__(self, dtype: DType, contract: Contract, arithmetic: Arithmetic, runs: Runs, owners: Runs) -> None:
        self.dtype = dtype
        self.contract = contract
        self.arithmetic = arithmetic
        self.runs = runs
        self.owners = owners
        self.nodes: list[Array] = []
        self.pinches: Flags = np.zeros(owners.lengths.size, dtype=bool)
        self.overflows: Flags = np.zeros(owners.lengths.size, dtype=bool)
        self.overflowing: Flags | None = None

    def leaf(self, values: FloatArray) -> Array:
        """Inputs to differentiate by; the dtype holds them exactly."""
        size = np.abs(values)
        top = max(1.0, float(np.maximum.reduce(size)))
        gain = np.maximum(size, 1.0) if top > 1.0 else 1.0
        leaf = Array(self, (values, 0.0), 0.0, size, gain, 1.0, top, ())
        leaf.index = 0
        self.nodes.append(leaf)
        return leaf

    def exact(self, values: FloatArray) -> Array:
        """Constant inputs that the dtype holds exactly."""
        return self.constant((values, 0.0), 0.0)

    def number(self, value: float) -> Array:
        """A constant: exact where the dtype holds it, otherwise rounded to the dtype."""
        return self.constant((value, 0.0), self._rounding(value))

    def numbers(self, values: Sequence[float], counts: Runs) -> Array:
        """A constant of each case, as one number for so many elements of each."""
        if len(set(values)) == 1:
            return self.number(values[0])
        radius = np.array([self._rounding(value) for value in values])
        return self.constant(
            (counts.spread(np.array(values)), 0.0), counts.spread(radius) if radius.any() else 0.0
        )

    def _rounding(self, value: float) -> float:
        return 0.0 if holds(self.dtype, value) else self.contract.u * abs(value)

    def constant(self, value: Value, radius: Floats) -> Array:
        """An array that gradients do not pass."""
        size = absolute(value[0])
        if isinstance(size, np.ndarray):
            most = float(np.maximum.reduce(size))
            gain: Floats = 1.0 if most <= 1.0 else np.maximum(size, 1.0)
        else:
            most = size
            gain = max(1.0, size)
        return Array(self, value, radius, size, gain, 1.0, max(1.0, ROOM * most), ())

    def record(
        self,
        value: Value,
        radius: Floats,
        magnitude: Floats,
        gain: Floats,
        terms: Floats,
        top: float,
        edges: tuple[Edge, ...],
        live: Flags | None = None,
        linear: bool = False,
    ) -> Array:
        """A new array; on the tape if a gradient can pass through it."""
        array = Array(self, value, radius, magnitude, gain, terms, top, edges)
        if edges:
            array.index = len(self.nodes)
            array.live = live
            for edge in edges:
                array.wide = array.wide or edge.parent.wide
                array.rowwise = array.rowwise or edge.parent.rowwise
            self.nodes.append(array)
        if not top <= self.contract.largest:
            self._look(array, linear)
        return array

    def start(self, array: Array) -> Array:
        """Put an array that was made elsewhere on the tape, as a sum."""
        array.index = len(self.nodes)
        self.nodes.append(array)
        if not array.top <= self.contract.largest:
            self._look(array, linear=True)
        return array

    def _look(self, array: Array, linear: bool) -> None:
        if not array.top < BEYOND:
            if not np.max(array.magnitude) < BEYOND:
                raise BeyondFloat64
            # Nothing is known of such an element, and no decision on it is made.
            array.radius = np.where(np.isnan(array.radius), np.inf, array.radius)
        exceeding = ~np.asarray(array.magnitude + array.radius <= self.contract.largest)
        if exceeding.any():
            self.overflows |= self.of_cases(exceeding)
            # A linear operation that overflows spoils the loss; the slopes of its operands are still constants.
            if not linear and array.index >= 0:
                self.flag(array, exceeding)

    def of_cases(self, flags: Flags) -> Flags:
        """In which cases anything is marked, of elements or of what they add up to."""
        if flags.ndim and flags.size == self.runs.size:
            flags = self.runs.any(flags)
        return self.owners.any(flags)

    def flag(self, array: Array, exceeding: Flags) -> None:
        """Mark the tokens that overflowing elements of an array depend on."""
        runs = self.runs
        if array.live is not None:
            exceeding = exceeding & array.live
        if array.rowwise or array.wide:
            if not array.rowwise and exceeding.ndim:
                exceeding = np.logical_or.reduceat(exceeding, runs.starts)
            exceeding = exceeding.repeat(runs.lengths) if exceeding.ndim else exceeding
        if self.overflowing is None:
            self.overflowing = np.zeros(runs.size, dtype=bool)
        self.overflowing |= exceeding
