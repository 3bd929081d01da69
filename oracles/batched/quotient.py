"""Division of arrays, which may be done with a rounded reciprocal and by a count's factors one after the other."""

from __future__ import annotations

import numpy as np

from oracles.batched.array import Array
from oracles.batched.divisor import Divisor
from oracles.batched.double_double import Floats
from oracles.batched.edge import ROOM, Edge
from oracles.contract import DIVISION_ROUNDINGS


def over(x: Array, divisor: Divisor) -> Array:
    """The quotient; see `Divisor`."""
    if divisor.unit is True:
        return x
    tape = x.tape
    u, eta = tape.contract.u, tape.contract.eta
    size, rounding, steps = divisor.size, divisor.rounding, divisor.steps
    reciprocal = 1.0 / size
    larger = np.maximum(1.0, reciprocal)
    underflow: Floats = eta * x.gain * (x.terms + steps)
    radius = (x.radius + rounding * (x.magnitude + x.radius)) / size
    edge_u: Floats = u
    if divisor.unit is not False:
        underflow = np.where(divisor.unit, 0.0, underflow)
        edge_u = np.where(divisor.unit, 0.0, u)
    radius = radius + underflow
    zeros = x.zeros()
    if zeros is not None:
        radius = np.where(zeros, 0.0, radius)
    largest_reciprocal = float(np.max(larger))
    edges: tuple[Edge, ...] = ()
    if x.index >= 0:
        edges = (
            Edge(
                "slope",
                x,
                derivative=tape.arithmetic.divide((1.0, 0.0), divisor.exact),
                size=reciprocal,
                radius=np.maximum(rounding - u, 0.0) * reciprocal,
                gain=larger,
                steps=steps,
                u=edge_u,
                top=ROOM * largest_reciprocal,
            ),
        )
    return tape.record(
        tape.arithmetic.divide(x.value, divisor.exact),
        radius,
        x.magnitude / size,
        x.gain * larger,
        x.terms,
        ROOM * x.top * largest_reciprocal,
        edges,
        live=x.live,
        linear=True,
    )


def by_constant(x: Array) -> Divisor:
    """Division by a positive constant that the dtype may have rounded."""
    size = x.mid
    rounding = DIVISION_ROUNDINGS * x.tape.contract.u + x.radius / (size - x.radius)
    return Divisor(x.value, size, rounding, 1.0, False)
