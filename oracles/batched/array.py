"""The array that formulas are written in: `oracles.scalar.Scalar` for all tokens, or all completions, at once.

Elementwise it carries what the scalar carries: exact value, radius, magnitude, gain and terms; the rules are the
same. What is one number for all elements is a float. Beyond that,

* `top`: at least every element's magnitude + radius and gain, and at least 1. While it is below what the dtype
  holds, nothing overflows and no element need be looked at;
* `live`: the elements that a gradient can pass through; None for all of them;
* `wide`: whether an element depends on all tokens of its completion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oracles.batched.double_double import Floats, Value
from oracles.batched.edge import ROOM, Edge, Flags, absolute, has_zero

if TYPE_CHECKING:
    from oracles.batched.tape import Tape


class Array:
    """Numbers of a formula, one a token or one a completion; see the module's docstring."""

    __slots__ = (
        "doubt",
        "edges",
        "gain",
        "index",
        "key",
        "kind",
        "live",
        "magnitude",
        "mask",
        "open",
        "radius",
        "repeated",
        "rowwise",
        "tape",
        "terms",
        "top",
        "value",
        "wide",
    )

    def __init__(
        self,
        tape: Tape,
        value: Value,
        radius: Floats,
        magnitude: Floats,
        gain: Floats,
        terms: Floats,
        top: float,
        edges: tuple[Edge, ...],
    ) -> None:
        self.tape = tape
        self.value = value
        self.radius = radius
        self.magnitude = magnitude
        self.gain = gain
        self.terms = terms
        self.top = top
        self.edges = edges
        self.index = -1
        self.kind = ""
        self.live: Flags | None = None
        self.mask: Flags | None = None
        self.open: Flags | None = None
        self.doubt: Flags | None = None
        self.key: tuple[Floats, ...] = ()
        self.repeated: tuple[Array, Array] | None = None
        self.wide = False
        self.rowwise = False

    @property
    def mid(self) -> Floats:
        """The values to float64."""
        return self.value[0]

    @property
    def is_constant(self) -> bool:
        """Whether no gradient passes."""
        return self.index < 0

    def zeros(self) -> Flags | None:
        """Where every evaluation gives exactly 0; None where that is nowhere."""
        mid = self.value[0]
        if isinstance(mid, np.ndarray):
            if not has_zero(self.magnitude):
                return None
            zeros = np.asarray((mid == 0.0) & (self.radius == 0.0))
            return zeros if zeros.any() else None
        return np.asarray(True) if mid == 0.0 and np.all(self.radius == 0.0) else None

    def _edge(self, sign: Floats = 1.0) -> tuple[Edge, ...]:
        return () if self.index < 0 else (Edge("sign", self, sign),)

    def _slope(self, by: Array) -> tuple[Edge, ...]:
        """The edge to self whose derivative is an array as an implementation has it: rounded."""
        if self.index < 0:
            return ()
        size = by.mid if by.mid is by.magnitude else absolute(by.mid)
        u = self.tape.contract.u
        return (
            Edge("slope", self, derivative=by.value, size=size, radius=by.radius, gain=by.gain, u=u, top=by.top),
        )

    def _coerce(self, other: Array | float) -> Array:
        return other if isinstance(other, Array) else self.tape.number(float(other))

    def _combine(self, other: Array, sign: float) -> Array:
        tape = self.tape
        u = tape.contract.u
        combine = tape.arithmetic.add if sign > 0 else tape.arithmetic.subtract
        value = combine(self.value, other.value)
        if type(self.radius) is float and type(other.radius) is float and self.radius == other.radius == 0.0:
            magnitude, radius = _of_exact(self, other, value, u)
        else:
            propagated = self.radius + other.radius
            magnitude = self.magnitude + other.magnitude
            radius = propagated + u * (magnitude + propagated)
            if has_zero(propagated):
                exact_magnitude, exact_radius = _of_exact(self, other, value, u)
                radius = np.where(propagated == 0.0, exact_radius, radius)
                magnitude = np.where(propagated == 0.0, exact_magnitude, magnitude)
        return tape.record(
            value,
            radius,
            magnitude,
            _greater(self.gain, other.gain),
            _greater(self.terms, other.terms),
            ROOM * (self.top + other.top),
            self._edge() + other._edge(sign),
            live=_either(self, other),
            linear=True,
        )

    def __add__(self, other: Array | float) -> Array:
        return self._combine(self._coerce(other), 1.0)

    def __radd__(self, other: float) -> Array:
        return self._coerce(other)._combine(self, 1.0)

    def __sub__(self, other: Array | float) -> Array:
        return self._combine(self._coerce(other), -1.0)

    def __rsub__(self, other: float) -> Array:
        return self._coerce(other)._combine(self, -1.0)

    def __neg__(self) -> Array:
        value = -self.value[0], -self.value[1]
        return self.tape.record(
            value,
            self.radius,
            self.magnitude,
            self.gain,
            self.terms,
            self.top,
            self._edge(-1.0),
            live=self.live,
            linear=True,
        )

    def __mul__(self, other: Array | float) -> Array:
        other = self._coerce(other)
        tape = self.tape
        u, eta = tape.contract.u, tape.contract.eta
        magnitude = self.magnitude * other.magnitude
        gain = self.gain * other.gain
        ours, theirs = self.radius, other.radius
        if type(theirs) is float and theirs == 0.0:
            propagated: Floats = other.magnitude * ours
        elif type(ours) is float and ours == 0.0:
            propagated = self.magnitude * theirs
        else:
            propagated = self.magnitude * theirs + (other.magnitude + theirs) * ours
        radius = propagated + u * (magnitude + propagated) + eta * gain
        live, nothing = _either(self, other), None
        if has_zero(magnitude):
            for factor in (self, other):
                zeros = factor.zeros()
                if zeros is None:
                    continue
                radius = np.where(zeros, 0.0, radius)
                if factor.live is not None:
                    zeros = zeros & ~factor.live
                elif not factor.is_constant:
                    continue
                nothing = zeros if nothing is None else nothing | zeros
            if nothing is not None:
                # A constant that is exactly 0 is what the product is.
                magnitude, gain = np.where(nothing, 0.0, magnitude), np.where(nothing, 1.0, gain)
                nothing = np.broadcast_to(nothing, magnitude.shape)
                live = ~nothing if live is None else live & ~nothing
        value = tape.arithmetic.multiply(self.value, other.value)
        top = ROOM * self.top * other.top
        product = tape.record(
            value,
            radius,
            magnitude,
            gain,
            _greater(self.terms, other.terms),
            top,
            self._slope(other) + other._slope(self),
            live=live,
        )
        product.mask = None if nothing is None else ~nothing
        return product

    __rmul__ = __mul__


def _of_exact(a: Array, b: Array, value: Value, u: float) -> tuple[Floats, Floats]:
    """Magnitude and radius of a sum whose operands are the very numbers the formula names."""
    magnitude = absolute(value[0])
    radius: Floats = u * magnitude
    if has_zero(a.magnitude) or has_zero(b.magnitude):
        radius = np.where((a.mid == 0.0) | (b.mid == 0.0), 0.0, radius)
    return magnitude, radius


def _greater(a: Floats, b: Floats) -> Floats:
    if a is b or (type(b) is float and b == 1.0):
        return a
    return b if type(a) is float and a == 1.0 else np.maximum(a, b)


def _either(a: Array, b: Array) -> Flags | None:
    """Where a gradient can pass to one of the two."""
    if a.index < 0:
        return b.live
    if b.index < 0 or a.live is None:
        return a.live
    return None if b.live is None else a.live | b.live
