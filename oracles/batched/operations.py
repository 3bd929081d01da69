"""Elementary functions and what rounds nothing: those of `oracles.operations`, elementwise."""

from __future__ import annotations

import math

import numpy as np

from cases.dtypes import FloatArray
from oracles.batched.array import Array
from oracles.batched.double_double import Floats, scaled
from oracles.batched.edge import ROOM, Edge, absolute
from oracles.batched.tape import BeyondFloat64
from oracles.contract import EXP_ULPS, LOG_ULPS, SIGMOID_ULPS

LARGEST_EXPONENT = 650.0
MOST_MOVED = 700.0


def exp(x: Array) -> Array:
    """e^x. The derivative is the rounded result itself, as automatic differentiation has it."""
    tape = x.tape
    u = tape.contract.u
    most = float(np.maximum.reduce(x.mid + x.radius, axis=None))
    if not most < LARGEST_EXPONENT:
        # A bound may be as large as it likes, a value may not.
        if not np.max(x.mid) < LARGEST_EXPONENT:
            raise BeyondFloat64
        most = math.inf
    value = tape.arithmetic.exp(x.value)
    mid = value[0]
    moved = np.expm1(x.radius if x.top <= MOST_MOVED else np.minimum(x.radius, MOST_MOVED))
    radius = mid * ((1.0 + EXP_ULPS * u) * moved + EXP_ULPS * u) + tape.contract.eta
    zeros = x.zeros()
    if zeros is not None:
        radius = np.where(zeros, 0.0, radius)
    gain = np.maximum(mid, 1.0)
    top = ROOM * ROOM * math.exp(max(most, 0.0))
    edges = (
        (Edge("slope", x, derivative=value, size=mid, radius=radius, gain=gain, u=u, top=top),)
        if x.index >= 0
        else ()
    )
    return tape.record(value, radius, mid, gain, 1.0, top, edges, live=x.live)


def log(x: FloatArray, like: Array) -> Array:
    """The natural logarithm of constant inputs above 0 that the dtype holds exactly."""
    tape = like.tape
    value = tape.arithmetic.log((x, 0.0))
    return tape.constant(value, LOG_ULPS * tape.contract.u * np.abs(value[0]))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e^-x), one operation. Its derivative y (1 - y) is formed from the rounded y."""
    tape, u, eta = x.tape, x.tape.contract.u, x.tape.contract.eta
    value, rest = tape.arithmetic.logistic(x.value)
    y, beside = value[0], rest[0]
    moved = np.expm1(np.minimum(x.radius, MOST_MOVED))
    radius = moved * np.minimum(y, beside) + SIGMOID_ULPS * u * y + eta
    slope = tape.arithmetic.multiply(value, rest)
    size = slope[0]
    slope_radius = radius + u * (2.0 * size + radius) + eta
    top = max(2.0, _top(slope_radius))
    edge = Edge("slope", x, derivative=slope, size=size, radius=slope_radius, u=u, top=top)
    edges = (edge,) if x.index >= 0 else ()
    return tape.record(value, radius, y, 1.0, 1.0, max(2.0, _top(radius)), edges, live=x.live)


def stop_gradient(x: Array) -> Array:
    """The same numbers as constants."""
    return Array(x.tape, x.value, x.radius, x.magnitude, x.gain, x.terms, x.top, ())


def stored(x: Array) -> Array:
    """The same numbers, evaluated by themselves: nothing outside reorders the terms they were added up from."""
    same = Array(x.tape, x.value, x.radius, absolute(x.mid), x.gain, 1.0, x.top, x.edges)
    same.index, same.live, same.mask, same.wide, same.rowwise = x.index, x.live, x.mask, x.wide, x.rowwise
    return same


def signed(x: Array, signs: FloatArray) -> Array:
    """x times +1 or -1 for each element, as a negation where it is -1."""
    edges = x._edge(signs)
    return x.tape.record(
        scaled(x.value, signs), x.radius, x.magnitude, x.gain, x.terms, x.top, edges, live=x.live, linear=True
    )


def bound_of_ratio(bound: Array) -> Array:
    """A bound of the ratio, which may be applied to its logarithm instead: as exp(min(d, log bound))."""
    size = bound.mid
    logarithm = absolute(np.log(size) if isinstance(size, np.ndarray) else math.log(size))
    roundings = EXP_ULPS + LOG_ULPS * logarithm
    return bound.tape.constant(bound.value, bound.radius + roundings * bound.tape.contract.u * size)


def _top(values: Floats) -> float:
    return float(np.max(values))
