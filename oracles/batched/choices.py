"""Operations that take one of their operands, element by element: `clip`, `minimum`, `kept`.

What a decided `minimum` or `clip` of the literal oracle is, one of its operands, is here an array that shares its
elements with both: a "share" edge passes the gradient where it is `open`, and where the decision is in doubt as
the sweep says.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from oracles.batched.array import Array
from oracles.batched.double_double import Floats, Value, is_single, scaled
from oracles.batched.edge import ROOM, Edge, Flags, absolute

GRACE: Final = 1.0 + 2.0**-26
"""A decision counts as undecided if it is so but for the roundings of our own arithmetic."""


def kept(x: Array, where: Flags) -> Array:
    """x where it is kept, elsewhere the constant 0."""
    if where.all():
        return x
    tape = x.tape
    full = where.astype(np.float64)
    array = Array(
        tape,
        scaled(x.value, full),
        x.radius * full,
        x.magnitude * full,
        np.where(where, x.gain, 1.0),
        np.where(where, x.terms, 1.0) if isinstance(x.terms, np.ndarray) else x.terms,
        x.top,
        (),
    )
    return _share(array, (x,), (where,), None, where if x.live is None else where & x.live)


def clip(x: Array, low: Array | None, high: Array | None) -> Array:
    """min(max(x, low), high) with constant bounds, None where there is none."""
    tape = x.tape
    beyond: list[tuple[Array, Flags]] = []
    doubt: Flags | None = None
    slacks: Floats = 0.0
    decided: Flags | None = None
    for bound, below in ((low, True), (high, False)):
        if bound is None:
            continue
        gap = tape.arithmetic.gap(bound.value, x.value) if below else tape.arithmetic.gap(x.value, bound.value)
        slack = (x.radius + bound.radius) * GRACE
        near = gap >= -slack
        if not np.count_nonzero(near):
            continue
        outside = gap > slack
        near &= ~outside
        if decided is not None:
            near &= ~decided
            outside &= ~decided
        beyond.append((bound, outside | (near & (gap > 0.0))))
        decided = outside if decided is None else decided | outside
        if np.count_nonzero(near):
            if doubt is not None:
                tape.pinches |= tape.of_cases(doubt & near)
            slacks = slacks + np.where(near, x.radius + bound.radius, 0.0)
            doubt = near if doubt is None else doubt | near
    if decided is None or (doubt is None and not np.count_nonzero(decided)):
        return x
    if doubt is not None:
        doubt &= ~decided
    value, radius, gain, terms = x.value, x.radius, x.gain, x.terms
    magnitude = x.magnitude
    for bound, outside in beyond:
        value = _where(outside, bound.value, value)
    for bound, outside in beyond[::-1]:
        radius = np.where(outside, bound.radius, radius)
        magnitude = np.where(outside, bound.magnitude, magnitude)
        gain = np.where(outside, bound.gain, gain)
        terms = np.where(outside, 1.0, terms) if isinstance(terms, np.ndarray) or terms != 1.0 else 1.0
    if doubt is not None and doubt.any():
        radius = np.where(doubt, slacks, radius)
        magnitude = np.where(doubt, absolute(value[0]) + radius, magnitude)
        gain = np.where(doubt, x.gain, gain)
        terms = np.where(doubt, 1.0, terms) if isinstance(terms, np.ndarray) else terms
    else:
        doubt = None
    tops = [bound.top for bound, _ in beyond]
    array = Array(tape, value, radius, magnitude, gain, terms, ROOM * (x.top + max(tops)), ())
    inside = ~decided if doubt is None else ~(decided | doubt)
    live = ~decided if x.live is None else ~decided & x.live
    clipped = _share(array, (x,), (inside,), doubt, live)
    clipped.kind = "clip"
    if doubt is not None:
        # A completion's ratio is one number, however many tokens clip it.
        one_number = bool(x.edges) and x.edges[0].kind == "gather"
        clipped.key = () if one_number else (np.arange(np.size(value[0]), dtype=np.float64),)
    return clipped


def minimum(a: Array, b: Array, same: Flags | None = None) -> Array:
    """min(a, b); `same` says where the two are one computation written twice."""
    tape = a.tape
    gap = tape.arithmetic.gap(a.value, b.value)
    slack = (a.radius + b.radius) * GRACE
    first = gap <= 0.0 if same is None else (gap <= 0.0) | same
    near: Flags = abs(gap) <= slack
    if same is not None:
        near &= ~same
    doubt = near if np.count_nonzero(near) else None
    if doubt is None and np.count_nonzero(first) == first.size:
        return a
    second = ~first
    value = _where(first, a.value, b.value)
    radius = np.where(first, a.radius, b.radius)
    magnitude = np.where(first, a.magnitude, b.magnitude)
    gain = np.where(first, a.gain, b.gain)
    plain = type(a.terms) is float and a.terms == b.terms
    terms = a.terms if plain else np.where(first, a.terms, b.terms)
    if doubt is not None:
        lower = np.minimum(a.mid - a.radius, b.mid - b.radius)
        upper = np.minimum(a.mid + a.radius, b.mid + b.radius)
        mid = value[0]
        radius = np.where(doubt, np.maximum(upper - mid, mid - lower), radius)
        magnitude = np.where(doubt, absolute(mid) + radius, magnitude)
        gain = np.where(doubt, np.maximum(a.gain, b.gain), gain)
        terms = np.where(doubt, 1.0, terms) if isinstance(terms, np.ndarray) else terms
        first, second = first & ~doubt, second & ~doubt
    ours = _lives(a)
    theirs = _lives(b)
    live = np.where(first, ours, np.where(second, theirs, ours | theirs))
    array = Array(tape, value, radius, magnitude, gain, terms, ROOM * (a.top + b.top), ())
    lowest = _share(array, (a, b), (first, second), doubt, None if live.all() else live)
    lowest.kind = "minimum"
    if doubt is not None:
        lowest.key = (a.mid, b.mid)
    return lowest


def _share(
    array: Array, operands: tuple[Array, ...], opens: tuple[Flags, ...], doubt: Flags | None, live: Flags | None
) -> Array:
    """Put an array that shares its elements with its operands on the tape, and look for overflow in doubt only."""
    tape = array.tape
    edges = tuple(
        Edge("share", operand, open=where, second=position == 1)
        for position, (operand, where) in enumerate(zip(operands, opens, strict=True))
        if operand.index >= 0
    )
    array.open = opens[0]
    if not edges:
        return array
    array.index = len(tape.nodes)
    array.edges = edges
    array.live = live
    array.wide = any(operand.wide for operand in operands if operand.index >= 0)
    array.rowwise = operands[0].rowwise
    if doubt is not None:
        doubt = doubt if live is None else doubt & live
        array.doubt = doubt if doubt.any() else None
    tape.nodes.append(array)
    if array.doubt is not None and not array.top <= tape.contract.largest:
        exceeding = array.doubt & np.logical_not(array.magnitude + array.radius <= tape.contract.largest)
        if exceeding.any():
            tape.overflows |= tape.of_cases(exceeding)
            tape.flag(array, exceeding)
    return array


def _lives(x: Array) -> Flags:
    if x.index < 0:
        return np.asarray(False)
    return np.asarray(True) if x.live is None else x.live


def _where(condition: Flags, a: Value, b: Value) -> Value:
    high = np.where(condition, a[0], b[0])
    if is_single(a) and is_single(b):
        return high, 0.0
    return high, np.where(condition, a[1], b[1])
