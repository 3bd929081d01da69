"""What rounding leaves undecided, and the outcomes it admits: `oracles.sweep` on whole arrays.

A piece is swept for every outcome that its own decisions admit; an outcome of the whole batch takes from each
piece the one that it comes to there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

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


DECIDED: Final = Choice(1.0, 0.0)
"""Of the choices, the one where nothing is in doubt."""


class Slopes(NamedTuple):
    """The derivative by each token, and its rounding error."""

    value: Value
    radius: Floats


NO_SLOPES: Final = Slopes((0.0, 0.0), 0.0)
"""Where no gradient comes."""


@dataclass(frozen=True, eq=False)
class Doubts:
    """Which decisions a case has in doubt: minima, clips, clips at both bounds.

    `all_repeat` says whether every clip in doubt only repeats what a minimum in doubt passes.
    """

    minima: bool
    clips: bool
    pinches: bool
    all_repeat: bool


@dataclass(frozen=True, eq=False)
class Survey:
    """The gradient of a piece for each choice, and what each case has in doubt there; None where none has any."""

    positions: Integers
    slopes: dict[Choice, Slopes | None]
    overflowing: Flags | None
    doubts: Sequence[Doubts] | None
    span: Ranges | None = None

    def taken(self, choice: Choice, case: int) -> Choice:
        """What a choice comes to in a case here."""
        if self.doubts is None:
            return DECIDED
        doubts = self.doubts[case]
        weight = choice.weight if doubts.minima else 1.0
        passing = choice.passing if doubts.clips and not (doubts.all_repeat and weight == 1.0) else 0.0
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
    doubts = _doubts(tape, found) if found else None
    slopes = {
        choice: _slopes(sweep(tape, seeds, choice.weight, choice.passing).get(leaf.index))
        for choice in _joint(doubts or [], pinches=not alone)
    }
    span = ranges(tape, leaf, seeds, found) if found else None
    return Survey(positions, slopes, tape.overflowing, doubts, span)


def _joint(doubts: Sequence[Doubts], pinches: bool = False) -> list[Choice]:
    """The choices that take all doubts into account."""
    return _choices(
        any(one.minima for one in doubts),
        any(one.clips for one in doubts),
        pinches or any(one.pinches for one in doubts),
        all(one.all_repeat for one in doubts),
    )


def _doubts(tape: Tape, found: Sequence[Decision]) -> list[Doubts]:
    cases = tape.owners.lengths.size
    minima, clips, others = (np.zeros(cases, dtype=bool) for _ in range(3))
    for one in found:
        if one.node.kind == "minimum":
            minima |= tape.of_cases(one.where)
        if one.node.kind == "clip":
            clips |= tape.of_cases(one.where)
            others |= tape.of_cases(one.own)
    flags = minima.tolist(), clips.tolist(), tape.pinches.tolist(), (~others).tolist()
    return [Doubts(*own) for own in zip(*flags, strict=True)]


def _slopes(adjoint: Adjoint | None) -> Slopes | None:
    return None if adjoint is None else Slopes(adjoint.value, adjoint.radius)


class Outcomes:
    """The outcomes of cases, from those of their pieces."""

    def __init__(self, surveys: Sequence[Survey]) -> None:
        self._doubts = [one.doubts for one in surveys if one.doubts is not None]

    def choices(self, case: int) -> list[Choice]:
        """The choices that a case has."""
        return _joint([one[case] for one in self._doubts]) if self._doubts else [DECIDED]
