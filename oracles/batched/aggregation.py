"""From the losses of tokens to the loss of a step, and back: how much of it each token is.

The way back depends on counts alone, so that a large batch can be evaluated piece by piece.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cases.case import Case
from cases.dtypes import FloatArray
from cases.spec import LossType
from oracles.batched.arithmetic import Arithmetic
from oracles.batched.array import Array
from oracles.batched.counts import counts_of
from oracles.batched.divisor import Divisor, Integers, by_count, by_tokens
from oracles.batched.double_double import Floats, Value
from oracles.batched.edge import ROOM, Flags
from oracles.batched.layout import Layout, Piece, Runs
from oracles.batched.quotient import over
from oracles.batched.sums import added, reduced
from oracles.batched.sweep import ONE, Adjoint, sweep
from oracles.batched.tape import Tape
from oracles.contract import Contract
from oracles.count import Count

_BY_COMPLETION: Final = (LossType.GRPO, LossType.SAPO, LossType.GMPO, LossType.LUSPO)


class Sums(NamedTuple):
    """What the token losses of each completion add up to: values, radii, magnitudes, greatest gains."""

    value: Value
    radius: FloatArray
    magnitude: FloatArray
    gain: FloatArray
    top: float

    @classmethod
    def of(cls, losses: Array) -> Sums:
        """Of the token losses of a piece."""
        runs = losses.tape.runs
        value = losses.tape.arithmetic.sums((runs.full(losses.mid), losses.value[1]), runs.starts)
        gain = np.broadcast_to(runs.greatest(losses.gain), runs.lengths.shape)
        return cls(value, runs.sums(losses.radius), runs.sums(losses.magnitude), gain, losses.top)

    @classmethod
    def nothing(cls, completions: int) -> Sums:
        """Zeros."""
        zeros = np.zeros(completions)
        return cls((zeros, 0.0), zeros, zeros, np.ones(completions), 1.0)

    @classmethod
    def joined(cls, parts: list[Sums]) -> Sums:
        """Of all pieces."""
        if len(parts) == 1:
            return parts[0]
        lows = [np.broadcast_to(part.value[1], part.radius.shape) for part in parts]
        value = np.concatenate([part.value[0] for part in parts]), np.concatenate(lows)
        radius, magnitude, gain = (
            np.concatenate(fields)
            for fields in zip(*((part.radius, part.magnitude, part.gain) for part in parts), strict=True)
        )
        return cls(value, radius, magnitude, gain, max(part.top for part in parts))


class Step(NamedTuple):
    """The loss of the step, with the derivatives of it by the token losses of each completion, and by the KL terms
    where these are averaged by themselves.

    `overflows` where a sum does, `spoils` where every gradient may, because the factor of the KL mean does.
    """

    value: tuple[float, float]
    radius: float
    overflows: bool
    spoils: bool
    policy: Adjoint
    kl: Adjoint | None


class Aggregation:
    """How the token losses of a case become the loss of its step."""

    def __init__(self, case: Case, layout: Layout, contract: Contract, arithmetic: Arithmetic) -> None:
        self._case, self._layout = case, layout
        self._contract, self._arithmetic = contract, arithmetic
        self._loss_type = case.spec.loss_type
        self._epsilon = case.spec.conventions.denominator_epsilon
        self._counts = counts_of(case, layout)

    def step(self, policy: Sums, kl: Sums | None) -> Step:
        """The loss of sums by completion."""
        tape = Tape(self._case.batch.dtype, self._contract, self._arithmetic, Runs(np.array([1])))
        first, loss = self._policy(tape, policy)
        apart = None
        if kl is not None:
            apart = self._reduced(tape, kl, self._everything, np.array([float(self._layout.tokens)]))
            mean = over(tape.number(self._case.spec.beta) * apart, self._by(self._counts.kl))
            loss = loss + mean
        met = sweep(tape, [(loss, ONE)])
        return Step(
            (float(np.ravel(loss.value[0])[0]), float(np.ravel(loss.value[1])[0])),
            float(np.ravel(loss.radius)[0]),
            tape.overflows,
            tape.overflowing is not None,
            met[first.index],
            None if apart is None else met[apart.index],
        )

    def seed(self, adjoint: Adjoint, piece: Piece) -> Adjoint:
        """A derivative of `Step` as one number a token of a piece, or one for all."""

        def at(values: Floats) -> Floats:
            array = np.asarray(values, dtype=np.float64)
            if array.size == 1:
                return float(array.reshape(-1)[0])
            by_row = array[piece.span] if self._by_row else array[self._layout.part_of[piece.span]]
            return np.repeat(by_row, piece.runs.lengths)

        high, low = adjoint.value
        return Adjoint(
            (at(high), at(low)), at(adjoint.radius), at(adjoint.magnitude), at(adjoint.gain), 1.0, adjoint.top
        )

    @property
    def _by_row(self) -> bool:
        return self._loss_type in _BY_COMPLETION

    @property
    def _everything(self) -> Runs:
        return Runs(np.array([self._layout.rows.size]))

    def _policy(self, tape: Tape, sums: Sums) -> tuple[Array, Array]:
        """The array of sums that the loss starts from, and the loss."""
        layout, counts = self._layout, self._counts
        lengths = layout.runs.lengths
        if self._by_row:
            first = self._reduced(tape, sums, None, lengths.astype(np.float64))
            means = first if self._loss_type is LossType.LUSPO else over(first, self._by_tokens(lengths))
            return first, over(added(means), self._by(counts.outer))
        if self._loss_type is LossType.BNPO:
            tokens = layout.part_tokens
            first = self._reduced(tape, sums, self._filled_parts, tokens.astype(np.float64))
            means = over(first, self._by_tokens(np.maximum(tokens, 1)))
            return first, over(added(means), self._by(counts.outer))
        first = self._reduced(tape, sums, self._everything, np.array([float(layout.tokens)]))
        return first, over(first, self._by(counts.outer))

    @property
    def _filled_parts(self) -> Runs:
        """The completions of each micro-batch that has any."""
        found = np.bincount(self._layout.part_of, minlength=self._layout.parts)
        return Runs(found[found > 0])

    def _reduced(self, tape: Tape, sums: Sums, runs: Runs | None, tokens: FloatArray) -> Array:
        """The sum of all token losses of each run of completions, or of each, as one reduction in any order.

        A micro-batch without tokens is the constant 0.
        """
        value, magnitude, gain = sums.value, sums.magnitude, sums.gain
        radius: Floats = sums.radius
        if runs is not None:
            value = tape.arithmetic.sums(value, runs.starts)
            radius, magnitude = runs.sums(radius), runs.sums(magnitude)
            gain = np.maximum.reduceat(gain, runs.starts)
        filled = tokens > 0
        if not filled.all():
            value = _placed(filled, value[0], 0.0), _placed(filled, value[1], 0.0)
            radius, magnitude = _placed(filled, radius, 0.0), _placed(filled, magnitude, 0.0)
            gain = _placed(filled, gain, 1.0)
            tokens = np.maximum(tokens, 1.0)
        radius = reduced(radius, magnitude, value, tokens, self._contract)
        top = ROOM * ROOM * sums.top * float(tokens.max())
        first = Array(tape, value, radius, magnitude, gain, tokens, top, ())
        return tape.start(first)

    def _by(self, count: Count) -> Divisor:
        return by_count(count, self._case.batch.dtype, self._contract)

    def _by_tokens(self, tokens: Integers) -> Divisor:
        return by_tokens(tokens, self._epsilon, self._case.batch.dtype, self._contract)


def _placed(filled: Flags, values: Floats, elsewhere: float) -> FloatArray:
    array = np.full(filled.shape, elsewhere)
    array[filled] = values
    return array
