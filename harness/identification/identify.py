"""Which of the known formulas explain a target's answers to the probes, within rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cases.case import Case
from cases.dtypes import DTYPES, FLOAT32, DType
from cases.spec import Level, LossType
from harness.asking import Contestant
from harness.identification.probes import probes
from harness.judge import judge
from harness.outcome import Outcome
from oracles.space.identities import canonical
from oracles.space.names import name_of, variant_of
from oracles.space.pieces import Pieces
from oracles.space.variant import Variant
from reports.records import Verdict


@dataclass(frozen=True)
class Identification:
    """What a target computes where it is asked for one loss at one level.

    * `asked`: the point that the name stands for, under the target's conventions.
    * `explained`: the points that explain every answer; empty where none of the `known` does.
    * `nearest`, `departs`: where none does, the point that comes closest, and where the first answer leaves it.
    * `probes`: how many cases were answered; `failure`: what became of those that were not.
    * `in_one_piece`: whether none of them was split, where bnpo and dapo are one formula.
    """

    loss_type: LossType
    level: Level
    asked: Variant
    known: int
    probes: int
    explained: tuple[Variant, ...] = ()
    nearest: Variant | None = None
    departs: str = ""
    failure: str = ""
    in_one_piece: bool = True

    @property
    def is_as_asked(self) -> bool:
        """Whether the name's own formula explains every answer."""
        return self.asked in self.explained


@dataclass(frozen=True, eq=False)
class _Answered:
    case: Case
    outcome: Outcome
    pieces: Pieces

    @property
    def is_whole(self) -> bool:
        return self.case.split.is_whole


def identify(one: Contestant, loss_type: LossType, level: Level, catalogue: Sequence[Variant]) -> Identification:
    """Put the probes to a target and find the points of a catalogue that explain all its answers."""
    answered, failure = _answers(one, loss_type, level)
    first = answered[0] if answered else None
    if first is None:
        spec = one.under_conventions(probes(loss_type, level, _dtype(one), one.facts.supports)[0]).spec
        return Identification(loss_type, level, variant_of(spec), len(catalogue), 0, failure=failure)
    asked = variant_of(first.case.spec)
    in_one_piece = all(answer.is_whole for answer in answered)
    points = dict.fromkeys(canonical(point, in_one_piece) for point in (asked, *catalogue))
    asked = canonical(asked, in_one_piece)
    left = list(points)
    for answer in answered:
        left = [point for point in left if _explains(point, answer)]
    found = Identification(
        loss_type,
        level,
        asked,
        len(points),
        len(answered),
        tuple(left),
        failure=failure,
        in_one_piece=in_one_piece,
    )
    if left:
        return found
    explained = [point for point in points if _explains(point, first)]
    if explained:
        # Some probes are explained: what leaves the formula is what the next one has.
        nearest = asked if asked in explained else explained[0]
        beyond = next(answer for answer in answered if not _explains(nearest, answer))
    else:
        beyond = first
        nearest = min(points, key=lambda point: _distance(point, first))
    message = judge(beyond.case, beyond.pieces.expectation(nearest), beyond.outcome).message
    return replace(found, nearest=nearest, departs=f"{message}{_what_is_special(beyond.case)}")


def _what_is_special(case: Case) -> str:
    if not case.split.is_whole:
        return " (where the batch is split over accumulation steps)"
    return " (where advantages are per token)" if case.batch.advantages.ndim == 2 else ""


def _dtype(one: Contestant) -> DType:
    supported = one.facts.supports.dtypes
    return FLOAT32 if "float32" in supported or not supported else DTYPES[supported[0]]


def _answers(one: Contestant, loss_type: LossType, level: Level) -> tuple[list[_Answered], str]:
    """The probes that were answered, and what became of the first that was not."""
    answered, failure = [], ""
    for probe in probes(loss_type, level, _dtype(one), one.facts.supports):
        case = one.under_conventions(probe)
        outcome = one.client.ask(case, one.device)
        if outcome.status == "ok":
            answered.append(_Answered(case, outcome, Pieces(case)))
        else:
            failure = failure or f"{outcome.status}: {outcome.message.splitlines()[0]}"
    return answered, failure


def _explains(point: Variant, answer: _Answered) -> bool:
    # The loss alone rules most points out, before a gradient is formed.
    loss = answer.pieces.loss(point)
    assert answer.outcome.loss is not None, "an answer has a loss"
    off = abs(answer.outcome.loss - float(loss.value))
    if not off <= 2.0 * loss.radius:
        return False
    found = judge(answer.case, answer.pieces.expectation(point), answer.outcome)
    return found.verdict is Verdict.CONFORMS


def _distance(point: Variant, answer: _Answered) -> tuple[int, float]:
    """Gradient elements that a point does not explain, then how far they are off in all."""
    expectation = answer.pieces.expectation(point)
    assert answer.outcome.gradient is not None, "an answer has a gradient"
    exact = expectation.gradients[0]
    error = exact.error(answer.outcome.gradient)
    off = ~(error <= exact.bound)
    return int(off.sum()), float(np.nansum(error))


def named(point: Variant) -> str:
    """What the field calls a point, or what it is made of where it has no name."""
    return name_of(point) or f"{point.surrogate.words}, {point.aggregation.words}"
