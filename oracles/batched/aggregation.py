"""From the losses of tokens to the loss of a step, and back: how much of it each token is.

The way back depends on counts alone, so that a large batch can be evaluated piece by piece.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from cases.dtypes import FloatArray
from cases.spec import LossType
from oracles.batched.arithmetic import Arithmetic
from oracles.batched.array import Array
from oracles.batched.counts import counts_of
from oracles.batched.divisor import Divisor, Integers, by_counts, by_tokens
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
    """The loss of each case's step, with its derivatives by what the token losses of each completion, micro-batch
    or case add up to, and by the KL terms of each case where these are averaged by themselves.

    `overflows` where a sum does, `spoils` where every gradient may, because the factor of the KL mean does.
    """

    value: tuple[FloatArray, FloatArray]
    radius: FloatArray
    overflows: Flags
    spoils: Flags
    policy: Adjoint
    kl: Adjoint | None


class Aggregation:
    """How the token losses of cases become the losses of their steps."""

    def __init__(self, layout: Layout, contract: Contract, arithmetic: Arithmetic) -> None:
        first = layout.cases[0]
        self._layout, self._dtype = layout, first.batch.dtype
        self._contract, self._arithmetic = contract, arithmetic
        self._loss_type = first.spec.loss_type
        self._epsilon = first.spec.conventions.denominator_epsilon
        self._counts = counts_of(layout)

    def step(self, policy: Sums, kl: Sums | None) -> Step:
        """The losses of sums by completion."""
        cases = len(self._layout.cases)
        tape = Tape(self._dtype, self._contract, self._arithmetic, self._elements, Runs.alone(cases))
        first, loss = self._policy(tape, policy)
        apart = None
        if kl is not None:
            apart = self._reduced(tape, kl, self._layout.owners, self._case_tokens)
            apart.rowwise = True
            betas = [case.spec.beta for case in self._layout.cases]
            mean = over(tape.numbers(betas, Runs.alone(cases)) * apart, self._by([one.kl for one in self._counts]))
            loss = loss + mean
        met = sweep(tape, [(loss, ONE)])
        high, low, radius = (np.broadcast_to(values, cases) for values in (*loss.value, loss.radius))
        flags = tape.overflowing
        return Step(
            (high, low),
            radius,
            tape.overflows,
            np.zeros(cases, dtype=bool) if flags is None else tape.of_cases(flags),
            met[first.index],
            None if apart is None else met[apart.index],
        )

    def seed(self, adjoint: Adjoint, piece: Piece, by: Integers | None = None) -> Adjoint:
        """A derivative of `Step` as one number a token of a piece, or one for all.

        `by` says which of the derivatives each completion has; None for those of the policy terms.
        """
        which = self._which if by is None else by

        def at(values: Floats) -> Floats:
            array = np.asarray(values, dtype=np.float64)
            if array.size == 1:
                return float(array.reshape(-1)[0])
            return array[which[piece.span]].repeat(piece.runs.lengths)

        high, low = adjoint.value
        return Adjoint(
            (at(high), at(low)), at(adjoint.radius), at(adjoint.magnitude), at(adjoint.gain), 1.0, adjoint.top
        )

    @property
    def _by_row(self) -> bool:
        return self._loss_type in _BY_COMPLETION

    @property
    def _which(self) -> Integers:
        """Which of the elements that a loss starts from each completion is in."""
        if self._by_row:
            return np.arange(self._layout.rows.size)
        return self._layout.part_of if self._loss_type is LossType.BNPO else self._layout.case_of

    @property
    def _elements(self) -> Runs:
        """The elements that the loss of each case starts from."""
        if self._by_row:
            return self._layout.owners
        return Runs(self._layout.parts) if self._loss_type is LossType.BNPO else Runs.alone(len(self._counts))

    @property
    def _case_tokens(self) -> FloatArray:
        return self._layout.case_tokens.astype(np.float64)

    def _policy(self, tape: Tape, sums: Sums) -> tuple[Array, Array]:
        """The array of sums that the loss starts from, and the loss."""
        layout, counts = self._layout, self._counts
        lengths = layout.runs.lengths
        if self._by_row:
            first = self._reduced(tape, sums, None, lengths.astype(np.float64))
            means = first if self._loss_type is LossType.LUSPO else over(first, self._by_tokens(lengths))
            return first, over(added(means), self._by([one.outer for one in counts]))
        if self._loss_type is LossType.BNPO:
            tokens = layout.part_tokens
            first = self._reduced(tape, sums, self._filled_parts, tokens.astype(np.float64))
            means = over(first, self._by_tokens(np.maximum(tokens, 1)))
            return first, over(added(means), self._by([one.outer for one in counts]))
        first = self._reduced(tape, sums, layout.owners, self._case_tokens)
        return first, over(first, self._by([one.outer for one in counts]))

    @property
    def _filled_parts(self) -> Runs:
        """The completions of each micro-batch that has any."""
        found = np.bincount(self._layout.part_of, minlength=int(self._layout.parts.sum()))
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

    def _by(self, counts: list[Count]) -> Divisor:
        return by_counts(counts, self._dtype, self._contract)

    def _by_tokens(self, tokens: Integers) -> Divisor:
        return by_tokens(tokens, self._epsilon, self._dtype, self._contract)


def _placed(filled: Flags, values: Floats, elsewhere: float) -> FloatArray:
    array = np.full(filled.shape, elsewhere)
    array[filled] = values
    return array
