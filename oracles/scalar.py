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

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from flint import arb, ctx

from oracles.contract import DIVISION_ROUNDINGS, EXP_ULPS, LOG_ULPS, SIGMOID_ULPS, Contract

PRECISION_BITS: Final = 160
"""Working precision of exact values; what it leaves out is in the ball's own radius and enters the bound."""


_LINEAR: Final = ("sum", "total", "negation", "quotient")


class Count(NamedTuple):
    """A positive number that a formula divides by, made up of factors that an implementation may divide by apart.

    `roundings` counts those that are no power of two, since dividing by one rounds nothing; `steps` counts all but
    1, since any of them may underflow.
    """

    value: Fraction
    roundings: int
    steps: int

    @classmethod
    def of(cls, *factors: int | Fraction) -> Count:
        """The product of some factors."""
        return cls(
            value=math.prod(map(Fraction, factors), start=Fraction(1)),
            roundings=sum(not _is_power_of_two(factor) for factor in factors),
            steps=sum(factor != 1 for factor in factors),
        )

    def times(self, *factors: int | Fraction) -> Count:
        """The count with further factors."""
        more = Count.of(*factors)
        return Count(self.value * more.value, self.roundings + more.roundings, self.steps + more.steps)


def _is_power_of_two(factor: int | Fraction) -> bool:
    part = Fraction(factor)
    return part.numerator & (part.numerator - 1) == 0 and part.denominator & (part.denominator - 1) == 0


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


class Tape:
    """The scalars of one formula in the order they were made, and the numbers they may be rounded to."""

    def __init__(self, contract: Contract, holds: Callable[[float], bool]) -> None:
        ctx.prec = PRECISION_BITS
        self.contract = contract
        self._holds = holds
        self.nodes: list[Scalar] = []
        self.undecided: list[Scalar] = []
        self.overflowing: set[int] = set()
        self.overflows = False
        self._numbers: dict[float, Scalar] = {}

    def leaf(self, value: float) -> Scalar:
        """An input to differentiate by; the dtype holds it exactly."""
        return self.record(arb(value), value, 0.0, abs(value), max(1.0, abs(value)), 1, "leaf", (), ())

    def number(self, value: float) -> Scalar:
        """A constant: exact where the dtype holds it, otherwise rounded to the dtype."""
        known = self._numbers.get(value)
        if known is None:
            radius = 0.0 if self._holds(value) else self.contract.u * abs(value)
            known = self.constant(arb(value), value, radius)
            self._numbers[value] = known
        return known

    def exact(self, value: float) -> Scalar:
        """A constant input that the dtype holds exactly."""
        return self.constant(arb(value), value, 0.0)

    def ratio_bound(self, bound: Scalar) -> Scalar:
        """A bound of the ratio, which may be applied to its logarithm instead: as exp(min(d, log bound))."""
        roundings = EXP_ULPS + LOG_ULPS * abs(math.log(bound.mid))
        return self.constant(bound.value, bound.mid, bound.radius + roundings * self.contract.u * bound.mid)

    def constant(self, value: arb, mid: float, radius: float) -> Scalar:
        """A scalar that gradients do not pass."""
        size = abs(mid)
        return Scalar(self, value, mid, radius, size, max(1.0, size), 1, "constant", (), (), -1)

    def record(
        self,
        value: arb,
        mid: float,
        radius: float,
        magnitude: float,
        gain: float,
        terms: int,
        operation: str,
        operands: tuple[Scalar, ...],
        edges: tuple[Edge, ...],
    ) -> Scalar:
        """A new scalar; on the tape if a gradient can pass through it."""
        tracked = bool(edges) or operation == "leaf"
        index = len(self.nodes) if tracked else -1
        scalar = Scalar(self, value, mid, radius, magnitude, gain, terms, operation, operands, edges, index)
        if tracked:
            self.nodes.append(scalar)
        if not magnitude + radius <= self.contract.largest:
            self.overflows = True
            # A linear operation that overflows spoils the loss; the slopes of its operands are still constants.
            if operation not in _LINEAR:
                self._flag(edges)
        return scalar

    def _flag(self, edges: Sequence[Edge]) -> None:
        """Mark the leaves that an overflowing intermediate depends on."""
        pending = [edge.parent for edge in edges]
        while pending:
            node = self.nodes[pending.pop()]
            if node.operation == "leaf":
                self.overflowing.add(node.index)
            pending.extend(edge.parent for edge in node.edges)

    def flag_below(self, index: int) -> None:
        """Mark the leaves under a scalar whose gradient overflows."""
        node = self.nodes[index]
        if node.operation == "leaf":
            self.overflowing.add(index)
        self._flag(node.edges)


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


def exp(x: Scalar) -> Scalar:
    """e^x. The derivative is the rounded result itself, as automatic differentiation has it."""
    tape = x.tape
    if x.is_exact_zero:
        value, mid, radius = arb(1), 1.0, 0.0
    else:
        value = x.value.exp()
        mid = float(value)
        moved = math.expm1(min(x.radius, 700.0))
        radius = mid * (moved + EXP_ULPS * tape.contract.u * (1.0 + moved)) + tape.contract.eta
    gain = max(1.0, mid)
    edges = (Edge(x.index, 1, value, mid, radius, gain),) if x.index >= 0 else ()
    return tape.record(value, mid, radius, mid, gain, 1, "exp", (x,), edges)


def log(x: Scalar) -> Scalar:
    """The natural logarithm of a positive constant. Raises `ValueError` where a gradient would have to pass."""
    if x.index >= 0:
        raise ValueError("log: takes a constant; its derivative has no rule yet")
    value = x.value.log()
    mid = float(value)
    radius = x.radius / (x.mid - x.radius) + LOG_ULPS * x.tape.contract.u * abs(mid)
    return x.tape.constant(value, mid, radius)


def sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + e^-x), one operation. Its derivative y (1 - y) is formed from the rounded y."""
    tape, u = x.tape, x.tape.contract.u
    value = 1 / (1 + (-x.value).exp())
    rest = 1 - value
    y, beside = float(value), float(rest)
    # Moving x by r changes y and 1 - y by at most e^r each.
    radius = math.expm1(min(x.radius, 700.0)) * min(y, beside) + SIGMOID_ULPS * u * y + tape.contract.eta
    slope = y * beside
    slope_radius = radius + u * (2.0 * slope + radius) + tape.contract.eta
    edges = (Edge(x.index, 1, value * rest, slope, slope_radius, 1.0),) if x.index >= 0 else ()
    return tape.record(value, y, radius, y, 1.0, 1, "sigmoid", (x,), edges)


def stop_gradient(x: Scalar) -> Scalar:
    """The same number as a constant."""
    return Scalar(x.tape, x.value, x.mid, x.radius, x.magnitude, x.gain, x.terms, "constant", (), (), -1)


def stored(x: Scalar) -> Scalar:
    """The same number, evaluated by itself: nothing outside reorders the terms it was added up from."""
    size = abs(x.mid)
    return Scalar(x.tape, x.value, x.mid, x.radius, size, x.gain, 1, x.operation, x.operands, x.edges, x.index)


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """min(a, b). Where rounding can decide either way, the sweep tries every outcome."""
    if a is b or (a.operation == b.operation == "product" and _same(a.operands, b.operands)):
        # One computation written twice, as r A and clip(r) A with r inside: whatever the tie rule of an
        # implementation, the derivative is that of the one.
        return a
    gap = float(a.value - b.value)
    slack = a.radius + b.radius
    if math.isinf(gap) or abs(gap) > slack:
        return a if gap < 0 else b
    lower = min(a.mid - a.radius, b.mid - b.radius)
    upper = min(a.mid + a.radius, b.mid + b.radius)
    value, mid = (a.value, a.mid) if gap <= 0 else (b.value, b.mid)
    return _decision(a.tape, "minimum", (a, b), value, mid, max(upper - mid, mid - lower))


def clip(x: Scalar, low: Scalar, high: Scalar) -> Scalar:
    """min(max(x, low), high) with constant bounds. Where rounding can decide either way, both are tried."""
    doubt = 0.0
    value, mid = x.value, x.mid
    for bound, side in ((low, -1.0), (high, 1.0)):
        beyond = side * float(x.value - bound.value)
        slack = x.radius + bound.radius
        if not math.isinf(beyond) and abs(beyond) <= slack:
            doubt += slack
            if beyond > 0:
                value, mid = bound.value, bound.mid
        elif beyond > 0:
            return bound
    if doubt == 0.0:
        return x
    return _decision(x.tape, "clip", (x,), value, mid, doubt)


def _decision(
    tape: Tape, operation: str, operands: tuple[Scalar, ...], value: arb, mid: float, radius: float
) -> Scalar:
    edges = tuple(edge for operand in operands for edge in operand._edge(1))
    gain = max(operand.gain for operand in operands)
    scalar = tape.record(value, mid, radius, abs(mid) + radius, gain, 1, operation, operands, edges)
    if scalar.index >= 0:
        tape.undecided.append(scalar)
    return scalar


def total(terms: Sequence[Scalar], tape: Tape) -> Scalar:
    """The sum of any number of terms, as a reduction in any order.

    A term takes part in at most as many additions as there are terms beside it; half types store the result.
    """
    if not terms:
        return tape.number(0.0)
    contract = tape.contract
    value = arb(0)
    count = 0
    for term in terms:
        value = value + term.value
        count += term.terms
    mid = float(value)
    radius = magnitude = 0.0
    gain = 1.0
    edges: list[Edge] = []
    for term in terms:
        radius += term.radius + contract.gamma(count - term.terms) * (term.magnitude + term.radius)
        magnitude += term.magnitude
        gain = max(gain, term.gain)
        edges.extend(term._edge(1))
    if contract.u_sum < contract.u and len(terms) > 1:
        radius += contract.u * (abs(mid) + radius)
    return tape.record(value, mid, radius, magnitude, gain, count, "total", tuple(terms), tuple(edges))


def _same(ours: tuple[Scalar, ...], theirs: tuple[Scalar, ...]) -> bool:
    return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))
