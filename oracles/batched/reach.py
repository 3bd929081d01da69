"""Which decisions in doubt a gradient passes, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oracles.batched.array import Array
from oracles.batched.edge import Edge, Flags
from oracles.batched.tape import Tape


@dataclass(frozen=True, eq=False)
class Decision:
    """A minimum or a clip: `where` it is in doubt and passed by a gradient.

    `repeats` says where a clip is an operand of a minimum in doubt beside the number it clips: open, it only
    repeats what the other operand passes.
    """

    node: Array
    where: Flags
    repeats: Flags

    @property
    def own(self) -> Flags:
        """Where it is a decision of its own."""
        return self.where & ~self.repeats


def decisions(tape: Tape, outputs: Sequence[Array]) -> list[Decision]:
    """The decisions in doubt that a gradient of some arrays passes."""
    if all(node.doubt is None for node in tape.nodes):
        return []
    reached = _reached(tape, outputs)
    found: dict[int, Flags] = {}
    for node in tape.nodes:
        if node.doubt is not None and node.index in reached:
            where = node.doubt & reached[node.index]
            if where.any():
                found[node.index] = where
    repeats: dict[int, Flags] = {}
    for index, where in found.items():
        repeated = tape.nodes[index].repeated
        if repeated is not None and repeated[0].index in found:
            clip, beside = repeated
            live = True if beside.live is None else beside.live
            repeats[clip.index] = where & found[clip.index] & live
    return [
        Decision(tape.nodes[index], where, repeats.get(index, np.zeros_like(where)))
        for index, where in found.items()
    ]


def through(tape: Tape, node: Array, edge: Edge, marks: Flags, open_in_doubt: Flags | None = None) -> Flags:
    """Marks of a node's elements as marks of an operand's; what is in doubt is open where the last one says."""
    runs = tape.runs
    if edge.kind == "share":
        passing = edge.open
        assert passing is not None
        if node.doubt is not None:
            passing = passing | (node.doubt if open_in_doubt is None else open_in_doubt)
        return marks & passing
    if edge.kind == "gather":
        whole = np.broadcast_to(marks, (runs.size,))
        gathered: Flags = np.logical_or.reduceat(whole, runs.starts)
        return gathered
    if edge.kind == "spread":
        return np.repeat(np.broadcast_to(marks, runs.lengths.shape), runs.lengths)
    return marks


def masked(node: Array, marks: Flags) -> Flags:
    """Marks where a gradient passes the node at all."""
    return marks if node.mask is None else marks & node.mask


def _reached(tape: Tape, outputs: Sequence[Array]) -> dict[int, Flags]:
    reached: dict[int, Flags] = {array.index: np.asarray(True) for array in outputs if array.index >= 0}
    for node in reversed(tape.nodes):
        marks = reached.get(node.index)
        if marks is None:
            continue
        marks = masked(node, marks)
        for edge in node.edges:
            passed = through(tape, node, edge, marks)
            known = reached.get(edge.parent.index)
            reached[edge.parent.index] = passed if known is None else known | passed
    return reached
