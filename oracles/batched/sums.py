"""Sums over completions, and what belongs to a completion as one number a token."""

from __future__ import annotations

import numpy as np

from oracles.batched.array import Array
from oracles.batched.double_double import Floats, Value
from oracles.batched.edge import ROOM, Edge, absolute
from oracles.contract import Contract


def gathered(x: Array) -> Array:
    """One number a completion as one a token; the gradient is gathered back."""
    runs = x.tape.runs

    def spread(values: Floats) -> Floats:
        return runs.spread(values)

    value: Value = spread(x.value[0]), spread(x.value[1])
    array = Array(x.tape, value, spread(x.radius), spread(x.magnitude), spread(x.gain), spread(x.terms), x.top, ())
    if x.index >= 0:
        array.index = len(x.tape.nodes)
        array.edges = (Edge("gather", x),)
        array.live = None if x.live is None else np.repeat(x.live, runs.lengths)
        array.wide = True
        x.tape.nodes.append(array)
    return array


def total(tokens: list[Array]) -> Array:
    """The sum over each completion of one or more numbers a token, none of them a sum, in any order."""
    tape = tokens[0].tape
    runs, contract = tape.runs, tape.contract
    counts = len(tokens) * runs.lengths.astype(np.float64)
    value: Value | None = None
    radius: Floats = 0.0
    magnitude: Floats = 0.0
    gain: Floats = 1.0
    for array in tokens:
        part = tape.arithmetic.sums((runs.full(array.mid), array.value[1]), runs.starts)
        value = part if value is None else tape.arithmetic.add(value, part)
        radius = radius + runs.sums(array.radius)
        magnitude = magnitude + runs.sums(array.magnitude)
        gain = np.maximum(gain, runs.greatest(array.gain))
    assert value is not None
    radius = reduced(radius, magnitude, value, counts, contract)
    top = ROOM * ROOM * float(counts.max()) * max(array.top for array in tokens)
    edges = tuple(Edge("spread", array) for array in tokens if array.index >= 0)
    row = tape.record(value, radius, magnitude, gain, counts, top, edges, linear=True)
    row.rowwise = True
    lives = [array.live for array in tokens if array.index >= 0 and array.live is not None]
    if len(lives) == len(edges):
        row.live = np.logical_or.reduceat(np.logical_or.reduce(lives), runs.starts) if lives else None
    return row


def summed(radius: Floats, magnitude: Floats, counts: Floats, u_sum: float) -> Floats:
    """The radius of sums of so many terms: each takes part in at most as many additions as there are others."""
    nu = (counts - 1.0) * u_sum
    return radius + nu / (1.0 - nu) * (magnitude + radius)


def reduced(radius: Floats, magnitude: Floats, value: Value, counts: Floats, contract: Contract) -> Floats:
    """The radius of sums of so many numbers that are no sums, from theirs added up; half types store it."""
    radius = summed(radius, magnitude, counts, contract.u_sum)
    if contract.u_sum < contract.u:
        radius = np.where(counts > 1.0, radius + contract.u * (absolute(value[0]) + radius), radius)
    return radius


def added(means: Array) -> Array:
    """The sum of the means of each case, each of which is a sum already."""
    tape = means.tape
    runs, contract = tape.runs, tape.contract
    terms = runs.sums(means.terms)
    others = terms.repeat(runs.lengths) - means.terms
    value = tape.arithmetic.sums((runs.full(means.mid), means.value[1]), runs.starts)
    radius: Floats = runs.sums(summed(means.radius, means.magnitude, others + 1.0, contract.u_sum))
    if contract.u_sum < contract.u:
        stored = radius + contract.u * (absolute(value[0]) + radius)
        radius = np.where(runs.lengths > 1, stored, radius)
    top = ROOM * means.top * float(runs.lengths.max())
    gain, edges = runs.greatest(means.gain), (Edge("spread", means),)
    loss = tape.record(value, radius, runs.sums(means.magnitude), gain, terms, top, edges, linear=True)
    loss.rowwise = True
    return loss
