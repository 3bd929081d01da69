"""The scalars of one formula in the order they were made, and what overflows among them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from flint import arb, ctx

from oracles.contract import EXP_ULPS, LOG_ULPS, Contract
from oracles.scalar import Edge, Scalar

PRECISION_BITS: Final = 160
"""Working precision of exact values; what it leaves out is in the ball's own radius and enters the bound."""

_LINEAR: Final = ("sum", "total", "negation", "quotient")


class Tape:
    """The scalars of one formula in the order they were made, and the numbers they may be rounded to."""

    def __init__(self, contract: Contract, holds: Callable[[float], bool]) -> None:
        ctx.prec = PRECISION_BITS
        self.contract = contract
        self._holds = holds
        self.nodes: list[Scalar] = []
        self.undecided: list[Scalar] = []
        self.pinches = False
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
