"""The range of a derivative over independent decisions, where several of them enter one element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cases.dtypes import FloatArray
from oracles.batched.array import Array
from oracles.batched.double_double import Value, scaled
from oracles.batched.edge import Edge, Flags
from oracles.batched.reach import Decision, masked, through
from oracles.batched.sweep import Adjoint
from oracles.batched.tape import Tape

Span = tuple[Value, Value]


@dataclass(frozen=True, eq=False)
class Ranges:
    """Least and greatest derivative by each token, and whether several decisions enter it."""

    several: Flags
    least: FloatArray
    greatest: FloatArray


def ranges(
    tape: Tape, leaf: Array, seeds: Sequence[tuple[Array, Adjoint]], found: Sequence[Decision]
) -> Ranges | None:
    """The hull of a piece; None where nowhere several decisions enter an element."""
    several = _several(tape, leaf, found)
    if not several.any():
        return None
    least, greatest = _spans(tape, leaf, seeds, {one.node.index: one for one in found})
    size = tape.runs.size
    return Ranges(several, np.broadcast_to(least[0], (size,)), np.broadcast_to(greatest[0], (size,)))


def _several(tape: Tape, leaf: Array, found: Sequence[Decision]) -> Flags:
    """Where more than one decision enters; decisions that every implementation takes alike are one."""
    entered = np.zeros(tape.runs.size, dtype=np.int64)
    many = np.zeros(tape.runs.size, dtype=bool)
    for decision in found:
        own = decision.own
        if not own.any():
            continue
        once, more = _entered(tape, leaf, decision, found)
        entered += once
        many |= more
    return many | (entered > 1)


def _entered(tape: Tape, leaf: Array, decision: Decision, found: Sequence[Decision]) -> tuple[Flags, Flags]:
    """Which tokens a decision enters, and which it enters as several that may be taken differently."""
    closed = {one.node.index: one for one in found}
    marks: dict[int, tuple[Flags, Flags]] = {decision.node.index: (decision.own, np.asarray(False))}
    for node in tape.nodes[decision.node.index :: -1]:
        if node.index not in marks:
            continue
        once, many = (masked(node, flags) for flags in marks[node.index])
        known = closed.get(node.index)
        in_doubt = None if known is None else known.own
        for edge in node.edges:
            passed = through(tape, node, edge, once, in_doubt)
            several = through(tape, node, edge, many, in_doubt)
            if edge.kind == "gather":
                several = several | _differ(tape, decision, np.broadcast_to(once, (tape.runs.size,)))
            before = marks.get(edge.parent.index)
            if before is not None:
                passed, several = before[0] | passed, before[1] | several
            marks[edge.parent.index] = passed, several
    size = (tape.runs.size,)
    once, many = marks.get(leaf.index, (np.asarray(False), np.asarray(False)))
    return np.broadcast_to(once, size), np.broadcast_to(many, size)


def _differ(tape: Tape, decision: Decision, where: Flags) -> Flags:
    """The completions in which the marked decisions are between numbers that are not all equal."""
    starts = tape.runs.starts
    differ = np.zeros(tape.runs.lengths.size, dtype=bool)
    for key in decision.node.key:
        if not isinstance(key, np.ndarray) or key.size != where.size:
            continue
        least = np.minimum.reduceat(np.where(where, key, np.inf), starts)
        greatest = np.maximum.reduceat(np.where(where, key, -np.inf), starts)
        differ |= greatest > least
    return differ


def _spans(tape: Tape, leaf: Array, seeds: Sequence[tuple[Array, Adjoint]], found: dict[int, Decision]) -> Span:
    met: dict[int, Span] = {}
    for array, seed in seeds:
        _put(tape, met, array, (seed.value, seed.value))
    for node in reversed(tape.nodes):
        span = met.get(node.index)
        if span is None or node is leaf:
            continue
        if node.mask is not None:
            span = _times(span, node.mask.astype(np.float64))
        for edge in node.edges:
            _put(tape, met, edge.parent, _passed(tape, edge, span, found.get(node.index)))
    return met[leaf.index]


def _passed(tape: Tape, edge: Edge, span: Span, decision: Decision | None) -> Span:
    low, high = span
    runs = tape.runs
    match edge.kind:
        case "share":
            assert edge.open is not None
            share = edge.open.astype(np.float64)
            least, greatest = _times(span, share)
            if decision is None:
                return least, greatest
            own = decision.own
            return (
                _where(own, _where(np.asarray(low[0] < 0.0), low, (0.0, 0.0)), least),
                _where(own, _where(np.asarray(high[0] > 0.0), high, (0.0, 0.0)), greatest),
            )
        case "sign":
            return _sorted(_times((low, low), edge.sign)[0], _times((high, high), edge.sign)[0])
        case "slope":
            multiply = tape.arithmetic.multiply
            return _sorted(multiply(low, edge.derivative), multiply(high, edge.derivative))
        case "spread":
            ends = [(runs.spread(end[0]), runs.spread(end[1])) for end in span]
            return ends[0], ends[1]
        case _:
            ends = [tape.arithmetic.sums((runs.full(end[0]), end[1]), runs.starts) for end in span]
            return ends[0], ends[1]


def _put(tape: Tape, met: dict[int, Span], parent: Array, span: Span) -> None:
    known = met.get(parent.index)
    if known is not None:
        add = tape.arithmetic.add
        span = add(known[0], span[0]), add(known[1], span[1])
    met[parent.index] = span


def _times(span: Span, factor: FloatArray | float) -> Span:
    """Times 0, 1 or -1, end by end."""
    low, high = span
    return scaled(low, factor), scaled(high, factor)


def _sorted(a: Value, b: Value) -> Span:
    # Equal highs differ, if at all, by less than a hull is rounded by.
    below = np.asarray(a[0] <= b[0])
    return _where(below, a, b), _where(below, b, a)


def _where(condition: Flags, a: Value, b: Value) -> Value:
    return np.where(condition, a[0], b[0]), np.where(condition, a[1], b[1])
