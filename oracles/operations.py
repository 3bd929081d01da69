"""The operations that formulas are written with, beside arithmetic.

Each has its rule for the value and for the derivative as automatic differentiation forms it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import arb

from oracles.contract import EXP_ULPS, LOG_ULPS, SIGMOID_ULPS
from oracles.scalar import Edge, Scalar
from oracles.tape import Tape


def exp(x: Scalar) -> Scalar:
    """e^x. The derivative is the rounded result itself, as automatic differentiation has it."""
    tape = x.tape
    if x.is_exact_zero:
        value, mid, radius = arb(1), 1.0, 0.0
    else:
        value = x.value.exp()
        mid = float(value)
        contract = tape.contract
        moved = math.expm1(min(x.radius + contract.exp_argument * contract.u * (abs(x.mid) + x.radius), 700.0))
        radius = mid * (moved + (EXP_ULPS + contract.exp_more) * contract.u * (1.0 + moved)) + contract.eta
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
    moved = x.radius + tape.contract.exp_argument * u * (abs(x.mid) + x.radius)
    # Moving x by r changes y and 1 - y by at most e^r each; so does an exponential of relative error r.
    moved += tape.contract.exp_more * u
    radius = math.expm1(min(moved, 700.0)) * min(y, beside) + SIGMOID_ULPS * u * y + tape.contract.eta
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


def clip(x: Scalar, low: Scalar | None, high: Scalar | None) -> Scalar:
    """min(max(x, low), high) with constant bounds, None where there is none.

    Where rounding can decide either way, both are tried; the tape notes where it can at both bounds.
    """
    doubt, undecided = 0.0, 0
    value, mid = x.value, x.mid
    for bound, side in ((low, -1.0), (high, 1.0)):
        if bound is None:
            continue
        beyond = side * float(x.value - bound.value)
        slack = x.radius + bound.radius
        if not math.isinf(beyond) and abs(beyond) <= slack:
            doubt, undecided = doubt + slack, undecided + 1
            if beyond > 0:
                value, mid = bound.value, bound.mid
        elif beyond > 0:
            return bound
    if not undecided:
        return x
    x.tape.pinches = x.tape.pinches or undecided == 2
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
