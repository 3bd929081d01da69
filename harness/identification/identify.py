"""Which of the known formulas explain a target's answers to the probes, within rounding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from cases.regions import regions_of
from cases.spec import Level, LossType
from harness.asking import Contestant
from harness.identification.answers import Answers, Sheets, answers
from harness.identification.departure import Departure, departure
from oracles.space.catalogue import everyday, weighted, whole
from oracles.space.names import variant_of
from oracles.space.variant import AXES, KL, Variant


@dataclass(frozen=True)
class Identification:
    """What a target computes where it is asked for one loss at one level.

    * `asked`: the point that the name stands for, under the target's conventions; `bare`: under none.
    * `explained`: the points that explain every answer, nearest to the one that was asked for first; empty where
      none of the `known` does, and then `departure` says what comes closest.
    * `probes`: how many cases were answered; `features`: what they had, by the names of `FEATURES`.
    * `refusals`, `failures`: what became of the others.
    * `known_as`: the reason of `lossgate.toml`, where it knows of all that does not agree with `asked`.
    """

    loss_type: LossType
    level: Level
    asked: Variant
    bare: Variant
    known: int
    probes: int
    features: frozenset[str] = frozenset()
    explained: tuple[Variant, ...] = ()
    departure: Departure | None = None
    refusals: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    known_as: str = ""

    @property
    def is_as_asked(self) -> bool:
        """Whether the name's own formula explains every answer, and no probe failed."""
        return self.asked in self.explained and not self.failures

    @property
    def best(self) -> Variant | None:
        """The first of the points that explain every answer."""
        return self.explained[0] if self.explained else None


def identify(one: Contestant, loss_type: LossType, level: Level, sheets: Sheets, every: bool) -> Identification:
    """Put the probes to a target and find the known formulas that explain all its answers.

    The everyday formulas are looked at first, and every one there is where none of them explains all, or where
    `every` asks for it.
    """
    found = answers(one, loss_type, level, sheets)
    asked = variant_of(found.asked)
    bare = variant_of(type(found.asked)(loss_type, level, beta=found.asked.beta))
    points: Sequence[Variant] = whole() if every else everyday()
    explained = _explaining(found, [asked, *points])
    if not explained and found.answered and not every:
        points = whole()
        explained = _explaining(found, [asked, *points])
    known_as = _known_as(one, found, asked)
    # What is known has its reason already, and finding one takes longer than all else.
    departs = None if explained or not found.answered else departure(found, asked, with_reason=not known_as)
    return Identification(
        loss_type,
        level,
        asked,
        bare,
        known=_count(found, points),
        probes=len(found.answered),
        features=found.features,
        explained=tuple(sorted(explained, key=lambda point: (len(point.differences(asked)), _oddity(point)))),
        departure=departs,
        refusals=found.refusals,
        failures=found.failures,
        known_as=known_as,
    )


def _explaining(found: Answers, points: Iterable[Variant]) -> list[Variant]:
    """Those of some points that explain every answer; none where there is no answer."""
    left = [point for point in dict.fromkeys(points) if found.expresses(point)] if found.answered else []
    weighed = False
    for answer in found.answered:
        if not weighed and "importance_ratio" in answer.features:
            weighed = True
            left = list(dict.fromkeys(other for point in left for other in weighted(point)))
        left = [point for point in left if answer.explained_by(point)]
    return left


def _count(found: Answers, points: Iterable[Variant]) -> int:
    """How many formulas were looked at, with importance ratios on each term or none where there are any."""
    weighed = "importance_ratio" in found.features
    kinds = [point.kl for point in points if found.expresses(point)]
    return sum((2 if kl is KL.NONE else 3) if weighed else 1 for kl in kinds)


def _oddity(point: Variant) -> int:
    """How far down the lists of choices a point's stand: the usual come first."""
    choices: list[Enum] = [getattr(point, axis) for axis in AXES]
    return sum(list(type(choice)).index(choice) for choice in choices)


def _known_as(one: Contestant, found: Answers, asked: Variant) -> str:
    """Why what was asked for does not explain every answer, if that is known of each that it does not explain."""
    off = [answer for answer in found.answered if not answer.explained_by(asked)]
    entries = [one.expect.find(one.cell(answer.case), regions_of(answer.case)) for answer in off]
    reasons = {entry.reason: None for entry in entries if entry is not None}
    return "; ".join(reasons) if off and not found.failures and None not in entries else ""
