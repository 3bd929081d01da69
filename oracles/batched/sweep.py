"""The tape read backwards: `oracles.sweep` for whole arrays, with the rounding error of every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from cases.dtypes import FloatArray
from oracles.batched.array import Array
from oracles.batched.double_double import Floats, Value, scaled
from oracles.batched.edge import BEYOND, ROOM, Edge, Flags, has_zero
from oracles.batched.tape import Tape
from oracles.contract import STORED_ADDITIONS, Contract
from oracles.sweep import HALVES

_FEW: Final = 64.0
"""As many contributions as are looked up rather than computed for every element."""


class Adjoint(NamedTuple):
    """The derivative of the loss by an array, elementwise, with what the literal sweep keeps for a node.

    `times` is how many contributions met; an element without any has gain 0 and is 0 throughout. `top` is at least
    every magnitude + radius and gain, and at least 1.
    """

    value: Value
    radius: Floats
    magnitude: Floats
    gain: Floats
    times: Floats
    top: float

    def where(self, share: FloatArray, count: Floats, whole: bool = True) -> Adjoint:
        """Passed on in shares that are 0 or 1, or if not `whole`, a power of two."""
        radius = self.radius * share
        if not self.top < BEYOND:
            radius = np.where(share == 0.0, 0.0, radius)
        passes = share if whole else (share != 0.0).astype(np.float64)
        return Adjoint(
            scaled(self.value, share),
            radius,
            self.magnitude * share,
            _times(self.gain, passes),
            _times(count, passes),
            self.top,
        )


ONE: Final = Adjoint((1.0, 0.0), 0.0, 1.0, 1.0, 1.0, 1.0)
"""The derivative of the loss by itself."""


def sweep(
    tape: Tape, seeds: Sequence[tuple[Array, Adjoint]], weight: float = 1.0, passing: float = 0.0
) -> dict[int, Adjoint]:
    """Adjoints by the nodes' indices, from those of some arrays.

    `weight` is what the first operand of an undecided minimum gets, `passing` what an undecided clip passes.
    """
    met: dict[int, Adjoint] = {}
    last = -1
    for array, seed in seeds:
        if array.index >= 0:
            met[array.index] = seed if array.index not in met else _meet(tape, met[array.index], seed)
            last = max(last, array.index)
    for node in tape.nodes[last::-1] if last >= 0 else ():
        adjoint = met.get(node.index)
        if adjoint is None:
            continue
        if node.mask is not None:
            adjoint = adjoint.where(node.mask.astype(np.float64), adjoint.times)
        shares = node.open is not None
        if not shares and not (node.edges and node.edges[0].kind == "gather"):
            adjoint = settled(tape.contract, adjoint)
        met[node.index] = adjoint
        if shares:
            _pass_shares(tape, met, node, adjoint, weight, passing)
            continue
        for edge in node.edges:
            _put(tape, met, edge.parent, _passed(tape, edge, adjoint))
    return met


def settled(contract: Contract, adjoint: Adjoint, where: Flags | None = None) -> Adjoint:
    """With the roundings of adding up the contributions that met."""
    count = adjoint.times
    most = float(np.maximum.reduce(count, axis=None)) if isinstance(count, np.ndarray) else count
    if most <= 1.0:
        return adjoint
    if most <= _FEW and isinstance(count, np.ndarray):
        meeting = _roundings(contract, np.arange(most + 1.0)).take(count.astype(np.intp))
    else:
        meeting = _roundings(contract, count)
    if where is not None:
        meeting = np.where(where, meeting, 0.0)
    radius = adjoint.radius + meeting * (adjoint.magnitude + adjoint.radius)
    return Adjoint(adjoint.value, radius, adjoint.magnitude, adjoint.gain, count, ROOM * adjoint.top)


def _roundings(contract: Contract, count: Floats) -> FloatArray:
    """Of adding so many contributions up, relative to their magnitude."""
    additions = np.maximum(count - 1.0, 0.0)
    nu = additions * contract.u_sum
    stored = np.where(additions > 0.0, STORED_ADDITIONS * contract.u, 0.0)
    least: FloatArray = np.minimum(additions * contract.u, nu / (1.0 - nu) + stored)
    return least


def _times(values: Floats, passes: FloatArray) -> Floats:
    return passes if type(values) is float and values == 1.0 else values * passes


def _once(count: Floats) -> Floats:
    """What a node of its own passes on counts once, however much met there."""
    return np.minimum(count, 1.0) if isinstance(count, np.ndarray) else 1.0


def _passed(tape: Tape, edge: Edge, adjoint: Adjoint) -> Adjoint:
    if edge.kind == "slope":
        return _through_slope(tape, edge, adjoint)
    value = adjoint.value
    if edge.kind == "sign":
        sign = edge.sign
        passed = value if type(sign) is float and sign == 1.0 else scaled(value, sign)
        return Adjoint(passed, adjoint.radius, adjoint.magnitude, adjoint.gain, _once(adjoint.times), adjoint.top)
    runs = tape.runs
    if edge.kind == "spread":
        return Adjoint(
            (runs.spread(value[0]), runs.spread(value[1])),
            runs.spread(adjoint.radius),
            runs.spread(adjoint.magnitude),
            runs.spread(adjoint.gain),
            runs.spread(_once(adjoint.times)),
            adjoint.top,
        )
    return Adjoint(
        tape.arithmetic.sums((runs.full(value[0]), value[1]), runs.starts),
        runs.sums(adjoint.radius),
        runs.sums(adjoint.magnitude),
        runs.greatest(adjoint.gain),
        runs.sums(adjoint.times),
        ROOM * adjoint.top * float(runs.lengths.max()),
    )


def _through_slope(tape: Tape, edge: Edge, adjoint: Adjoint) -> Adjoint:
    contract = tape.contract
    size = adjoint.magnitude * edge.size
    gain = adjoint.gain * edge.gain
    error = adjoint.radius * edge.size
    if type(edge.radius) is not float or edge.radius:
        error = error + (adjoint.magnitude + adjoint.radius) * edge.radius
    top = ROOM * adjoint.top * edge.top
    if not top < BEYOND:
        # Where no contribution met, a factor without a bound says nothing.
        error = np.where(adjoint.gain == 0.0, 0.0, error)
    whole = size + error
    eta: Floats = (HALVES * contract.eta) * edge.steps * gain
    if has_zero(whole):
        eta = np.where(whole == 0.0, 0.0, eta)
    error = error + edge.u * whole + eta
    if not top <= contract.largest:
        exceeding = ~np.asarray(size + error <= contract.largest)
        if exceeding.any():
            tape.flag(edge.parent, exceeding)
    value = tape.arithmetic.multiply(adjoint.value, edge.derivative)
    return Adjoint(value, error, size, gain, _once(adjoint.times), top)


def _pass_shares(
    tape: Tape, met: dict[int, Adjoint], node: Array, adjoint: Adjoint, weight: float, passing: float
) -> None:
    """What is in doubt is a node of its own; elsewhere the operand that was taken stands in for it."""
    count = adjoint.times
    if node.doubt is not None:
        adjoint = settled(tape.contract, adjoint, node.doubt)
        count = np.where(node.doubt, np.minimum(count, 1.0), count)
    for edge in node.edges:
        assert edge.open is not None
        # The branch that is never taken is often a constant there.
        live = edge.parent.live if edge.second else None
        opens = edge.open if live is None else edge.open & live
        share: FloatArray = opens.astype(np.float64)
        part = 0.0
        if node.doubt is not None:
            part = passing if node.kind == "clip" else 1.0 - weight if edge.second else weight
            if part:
                doubt = node.doubt if live is None else node.doubt & live
                share = share + part * doubt.astype(np.float64)
        if opens.any() or share.any():
            _put(tape, met, edge.parent, adjoint.where(share, count, whole=part in (0.0, 1.0)))


def _put(tape: Tape, met: dict[int, Adjoint], parent: Array, passed: Adjoint) -> None:
    known = met.get(parent.index)
    met[parent.index] = passed if known is None else _meet(tape, known, passed)


def _meet(tape: Tape, a: Adjoint, b: Adjoint) -> Adjoint:
    return Adjoint(
        tape.arithmetic.add(a.value, b.value),
        a.radius + b.radius,
        a.magnitude + b.magnitude,
        np.maximum(a.gain, b.gain),
        a.times + b.times,
        ROOM * (a.top + b.top),
    )
