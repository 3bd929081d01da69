"""What rounding leaves undecided, and the outcomes it admits: `oracles.sweep` on whole arrays.

A piece is swept for every outcome that its own decisions admit; an outcome of the whole batch takes from each
piece the one that it comes to there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from oracles.batched.array import Array
from oracles.batched.double_double import Floats, Value
from oracles.batched.edge import Flags
from oracles.batched.hull import Ranges, ranges
from oracles.batched.layout import Integers
from oracles.batched.reach import Decision, decisions
from oracles.batched.sweep import Adjoint, sweep
from oracles.batched.tape import Tape
from oracles.sweep import PASSES, QUARTER, TIE_WEIGHTS


class Choice(NamedTuple):
    """What the first operand of an undecided minimum gets, and what an undecided clip passes."""

    weight: float
    passing: float


class Slopes(NamedTuple):
    """The derivative by each token, and its rounding error."""

    value: Value
    radius: Floats


@dataclass(frozen=True, eq=False)
class Doubts:
    """Which decisions each case of a piece has in doubt: minima, clips, clips at both bounds; whether every clip in
    doubt only repeats what a minimum in doubt passes.
    """

    minima: Flags
    clips: Flags
    pinches: Flags
    all_repeat: Flags

    @classmethod
    def none(cls, cases: int) -> Doubts:
        """Nothing is in doubt."""
        nowhere = np.zeros(cases, dtype=bool)
        return cls(nowhere, nowhere, nowhere, ~nowhere)


@dataclass(frozen=True, eq=False)
class Survey:
    """The gradient of a piece for each choice, and the decisions that its cases have."""

    positions: Integers
    slopes: dict[Choice, Slopes | None]
    overflowing: Flags | None
    doubts: Doubts
    span: Ranges | None = None

    def taken(self, choice: Choice, case: int) -> Choice:
        """What a choice comes to in a case here."""
        doubts = self.doubts
        weight = choice.weight if doubts.minima[case] else 1.0
        passing = choice.passing if doubts.clips[case] else 0.0
        if doubts.clips[case] and doubts.all_repeat[case] and weight == 1.0:
            passing = 0.0
        return Choice(weight, passing)


def _choices(minima: bool, clips: bool, pinches: bool, all_repeat: bool) -> list[Choice]:
    weights = TIE_WEIGHTS if minima else (1.0,)
    passes = PASSES if clips else (0.0,)
    if clips and pinches:
        passes = (*passes, QUARTER)
    return [
        Choice(weight, passing)
        for weight, passing in product(weights, passes)
        # With all the weight on the first operand, a clip that repeats it is not reached.
        if not (weight == 1.0 and passing != passes[0] and all_repeat)
    ]


def survey(
    tape: Tape, leaf: Array, seeds: Sequence[tuple[Array, Adjoint]], positions: Integers, alone: bool
) -> Survey:
    """Sweep a piece for every outcome that its decisions admit; one among others also for what theirs may."""
    found = decisions(tape, [array for array, _ in seeds])
    doubts = _doubts(tape, found) if found else Doubts.none(tape.owners.lengths.size)
    minima, clips = bool(doubts.minima.any()), bool(doubts.clips.any())
    pinches = bool(doubts.pinches.any()) or not alone
    slopes = {
        choice: _slopes(sweep(tape, seeds, choice.weight, choice.passing).get(leaf.index))
        for choice in _choices(minima, clips, pinches, bool(doubts.all_repeat.all()))
    }
    span = ranges(tape, leaf, seeds, found) if found else None
    return Survey(positions, slopes, tape.overflowing, doubts, span)


def _doubts(tape: Tape, found: Sequence[Decision]) -> Doubts:
    cases = tape.owners.lengths.size
    minima, clips, others = (np.zeros(cases, dtype=bool) for _ in range(3))
    for one in found:
        if one.node.kind == "minimum":
            minima |= tape.of_cases(one.where)
        if one.node.kind == "clip":
            clips |= tape.of_cases(one.where)
            others |= tape.of_cases(one.own)
    return Doubts(minima, clips, tape.pinches, ~others)


def _slopes(adjoint: Adjoint | None) -> Slopes | None:
    return None if adjoint is None else Slopes(adjoint.value, adjoint.radius)


class Outcomes:
    """The outcomes of cases, from those of their pieces."""

    def __init__(self, surveys: Sequence[Survey]) -> None:
        self._doubts = [one.doubts for one in surveys]

    def choices(self, case: int) -> list[Choice]:
        """The choices that a case has."""
        minima = any(one.minima[case] for one in self._doubts)
        clips = any(one.clips[case] for one in self._doubts)
        pinches = any(one.pinches[case] for one in self._doubts)
        all_repeat = all(one.all_repeat[case] for one in self._doubts)
        return _choices(minima, clips, pinches, all_repeat)
