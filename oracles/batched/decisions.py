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

from cases.dtypes import FloatArray
from oracles.batched.array import Array
from oracles.batched.double_double import Floats, Value
from oracles.batched.edge import Flags
from oracles.batched.hull import Ranges, ranges
from oracles.batched.layout import Integers
from oracles.batched.reach import decisions
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
class Survey:
    """The gradient of a piece for each choice, and the decisions it has."""

    positions: Integers
    slopes: dict[Choice, Slopes | None]
    overflowing: Flags | None
    minima: bool
    clips: bool
    pinches: bool
    all_repeat: bool
    span: Ranges | None = None

    def taken(self, choice: Choice) -> Slopes | None:
        """What a choice comes to here."""
        weight = choice.weight if self.minima else 1.0
        passing = choice.passing if self.clips else 0.0
        if self.clips and self.all_repeat and weight == 1.0:
            passing = 0.0
        return self.slopes[Choice(weight, passing)]


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
    minima = any(one.node.kind == "minimum" for one in found)
    clips = [one for one in found if one.node.kind == "clip"]
    all_repeat = all((one.repeats == one.where).all() for one in clips)
    slopes = {
        choice: _slopes(sweep(tape, seeds, choice.weight, choice.passing).get(leaf.index))
        for choice in _choices(minima, bool(clips), tape.pinches or not alone, all_repeat)
    }
    span = ranges(tape, leaf, seeds, found) if found else None
    return Survey(positions, slopes, tape.overflowing, minima, bool(clips), tape.pinches, all_repeat, span=span)


def _slopes(adjoint: Adjoint | None) -> Slopes | None:
    return None if adjoint is None else Slopes(adjoint.value, adjoint.radius)


class Outcomes:
    """The outcomes of a batch, from those of its pieces."""

    def __init__(self, surveys: Sequence[Survey]) -> None:
        self._surveys = surveys
        minima = any(one.minima for one in surveys)
        clips = [one for one in surveys if one.clips]
        pinches = any(one.pinches for one in surveys)
        all_repeat = all(one.all_repeat for one in clips)
        self.choices = _choices(minima, bool(clips), pinches, all_repeat)

    def hull(self, shape: tuple[int, ...]) -> tuple[FloatArray, FloatArray] | None:
        """Least and greatest derivative where several decisions enter an element; None where they nowhere do."""
        spans = [(one.positions, one.span) for one in self._surveys if one.span is not None]
        if not any(span.several.any() for _, span in spans):
            return None
        least, greatest = np.full(shape, np.nan), np.full(shape, np.nan)
        for positions, span in spans:
            at = positions[span.several]
            least.reshape(-1)[at], greatest.reshape(-1)[at] = span.least[span.several], span.greatest[span.several]
        return least, greatest
