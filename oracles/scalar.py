"""The scalar that formulas are written in: its exact value, and how far rounding can move it.

A formula that runs on `Scalar` gives three answers from one text: the exact value (python-flint `arb`), the
exact gradient (`oracles.sweep`), and for both the error that rounding in the target's dtype can cause in any
sensible order of evaluation.

Every scalar carries, beside its exact value,

* `radius`: the largest error of a rounded evaluation;
* `magnitude`: the sum of the absolute values of the terms it was added up from. Sums may be reordered and
  factors may be distributed over them, so roundings are charged on the magnitude, never on a value that
  cancellation made small;
* `gain`: how much factors can enlarge the error of an intermediate that underflows;
* `terms`: how many terms the sums below it have, since a term of a nested sum may take part in as many
  additions as there are terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flint import arb

from oracles.contract import DIVISION_ROUNDINGS
from oracles.count import Count

if TYPE_CHECKING:
    from oracles.tape import Tape


class Edge(NamedTuple):
    """A local derivative: of the scalar that holds the edge with respect to `parent`.

    `derivative` is None where it is +1 or -1 (`sign` says which), since multiplying by it rounds nothing. `steps`
    counts the operations that may underflow in multiplying by it.
    """

    parent: int
    sign: int
    derivative: arb | None
    size: float
    radius: float
    gain: float
    steps: int = 1


class Scalar:
    """One number of a formula; see the module's docstring. Arithmetic takes scalars and Python numbers."""

    __slots__ = (
        "edges",
        "gain",
        "index",
        "magnitude",
        "mid",
        "operands",
        "operation",
        "radius",
        "tape",
        "terms",
        "value",
    )

    def __init__(
        self,
        tape: Tape,
        value: arb,
        mid: float,
        radius: float,
        magnitude: float,
        gain: float,
        terms: int,
        operation: str,
        operands: tuple[Scalar, ...],
        edges: tuple[Edge, ...],
        index: int,
    ) -> None:
        self.tape = tape
        self.value = value
        self.mid = mid
        self.radius = radius
        self.magnitude = magnitude
        self.gain = gain
        self.terms = terms
        self.operation = operation
        self.operands = operands
        self.edges = edges
        self.index = index

    @property
    def is_exact_zero(self) -> bool:
        """Whether every evaluation gives exactly 0 here."""
        return self.mid == 0.0 and self.radius == 0.0

    def _edge(self, sign: int) -> tuple[Edge, ...]:
        return (Edge(self.index, sign, None, 1.0, 0.0, 1.0),) if self.index >= 0 else ()

    def _slope(self, derivative: Scalar) -> tuple[Edge, ...]:
        """The edge to self whose derivative is a scalar as an implementation has it: rounded."""
        if self.index < 0:
            return ()
        size = abs(derivative.mid)
        return (Edge(self.index, 1, derivative.value, size, derivative.radius, derivative.gain),)

    def _coerce(self, other: Scalar | float) -> Scalar:
        return other if isinstance(other, Scalar) else self.tape.number(float(other))

    def _combine(self, other: Scalar, sign: int) -> Scalar:
        """self + sign * other."""
        value = self.value + other.value if sign > 0 else self.value - other.value
        mid = float(value)
        propagated = self.radius + other.radius
        magnitude = self.magnitude + other.magnitude
        if propagated == 0.0:
            # Both operands are the very numbers the formula names: one rounding of the result, no reordering.
            magnitude = abs(mid)
            exact = self.mid == 0.0 or other.mid == 0.0
            radius = 0.0 if exact else self.tape.contract.u * magnitude
        else:
            radius = propagated + self.tape.contract.u * (magnitude + propagated)
        return self.tape.record(
            value,
            mid,
            radius,
            magnitude,
            max(self.gain, other.gain),
            max(self.terms, other.terms),
            "sum",
            (self, other),
            self._edge(1) + other._edge(sign),
        )

    def __add__(self, other: Scalar | float) -> Scalar:
        return self._combine(self._coerce(other), 1)

    def __radd__(self, other: float) -> Scalar:
        return self._coerce(other)._combine(self, 1)

    def __sub__(self, other: Scalar | float) -> Scalar:
        return self._combine(self._coerce(other), -1)

    def __rsub__(self, other: float) -> Scalar:
        return self._coerce(other)._combine(self, -1)

    def __neg__(self) -> Scalar:
        return self.tape.record(
            -self.value,
            -self.mid,
            self.radius,
            self.magnitude,
            self.gain,
            self.terms,
            "negation",
            (self,),
            self._edge(-1),
        )

    def __mul__(self, other: Scalar | float) -> Scalar:
        other = self._coerce(other)
        tape = self.tape
        for factor in (self, other):
            if factor.index < 0 and factor.is_exact_zero:
                return factor
        contract = tape.contract
        magnitude = self.magnitude * other.magnitude
        gain = self.gain * other.gain
        if self.is_exact_zero or other.is_exact_zero:
            radius = 0.0
        else:
            propagated = self.magnitude * other.radius + other.magnitude * self.radius + self.radius * other.radius
            radius = propagated + contract.u * (magnitude + propagated) + contract.eta * gain
        value = self.value * other.value
        return tape.record(
            value,
            float(value),
            radius,
            magnitude,
            gain,
            max(self.terms, other.terms),
            "product",
            (self, other),
            self._slope(other) + other._slope(self),
        )

    __rmul__ = __mul__

    def __truediv__(self, divisor: int | Count | Scalar) -> Scalar:
        """Divide by a positive count, or by a positive constant that the dtype may have rounded.

        Either may be done with a rounded reciprocal, and by a count's factors one after the other.
        """
        tape, contract = self.tape, self.tape.contract
        if isinstance(divisor, Scalar):
            exact, roundings, steps, size = divisor.value, DIVISION_ROUNDINGS, 1, divisor.mid
            relative = divisor.radius / (divisor.mid - divisor.radius)
        else:
            count = divisor if isinstance(divisor, Count) else Count.of(divisor)
            if count.value == 1:
                return self
            exact = arb(count.value.numerator) / count.value.denominator
            roundings, steps, size = DIVISION_ROUNDINGS * count.roundings, count.steps, float(count.value)
            relative = tape.number(size).radius / size
        rounding = roundings * contract.u + relative
        if self.is_exact_zero:
            radius = 0.0
        else:
            # The divisor may be folded into each term, and each step of the division may underflow.
            underflow = contract.eta * self.gain * (self.terms + steps)
            radius = (self.radius + rounding * (self.magnitude + self.radius)) / size + underflow
        value = self.value / exact
        reciprocal = 1.0 / size
        # The product with the reciprocal is rounded once more, where the gradient is formed.
        slope = max(rounding - contract.u, 0.0) * reciprocal
        edge = Edge(self.index, 1, 1 / exact, reciprocal, slope, max(1.0, reciprocal), steps)
        return tape.record(
            value,
            float(value),
            radius,
            self.magnitude / size,
            self.gain * max(1.0, reciprocal),
            self.terms,
            "quotient",
            (self,),
            (edge,) if self.index >= 0 else (),
        )
