"""Which nearby formula of the space explains a cell: another named loss, or one choice otherwise than asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum

from cases.case import Case
from cases.spec import Level, LossSpec, LossType
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Explanation, share
from oracles.space.identities import canonical
from oracles.space.names import name_of, variant_of
from oracles.space.pieces import Pieces
from oracles.space.variant import AXES, Variant

Change = Mapping[str, Enum]
"""Choices that take the place of those that a case asks for, by axis."""


def points(evidence: Evidence) -> Iterator[Explanation]:
    """The formulas that explain some of the telling cases, told as they differ from the one that is asked for."""
    pieces = {one: Pieces(one.case) for one in evidence}
    asked = variant_of(evidence.numbers[0].case.spec)

    def explains(change: Change) -> Callable[[Answered], bool]:
        return lambda one: _explains(change, one, pieces[one])

    for change in _changes(asked):
        if any(explains(change)(one) for one in evidence.telling):
            words = _told(_changed(evidence.numbers[0].case, change), asked)
            yield Explanation(words, share(evidence, explains(change)))


def _changes(asked: Variant) -> Iterator[Change]:
    """The plainest first; changes that come to the same formula are not merged, since cases differ in options."""
    seen = {asked}
    for loss_type in LossType:
        for level in Level:
            named = variant_of(LossSpec(loss_type, level))
            change: Change = {axis: getattr(named, axis) for axis in ("aggregation", "surrogate", "ratio")}
            point = canonical(replace(asked, **change))  # type: ignore[arg-type]  # each axis has its own type
            if point not in seen:
                seen.add(point)
                yield change
    for axis in AXES:
        for choice in type(getattr(asked, axis)):
            if choice is not getattr(asked, axis):
                yield {axis: choice}


def _changed(case: Case, change: Change) -> Variant:
    return canonical(replace(variant_of(case.spec), **change))  # type: ignore[arg-type]  # each axis has its own type


def _explains(change: Change, one: Answered, pieces: Pieces) -> bool:
    point = _changed(one.case, change)
    loss = pieces.loss(point)
    answer = one.outcome.loss
    # The loss alone rules most points out, before a gradient is formed.
    if answer is None or (abs(answer - float(loss.value)) > 2.0 * loss.radius and not pieces.overflows):
        return False
    return one.explained_by(pieces.expectation(point))


def _told(point: Variant, asked: Variant) -> str:
    """That it computes a loss of another name, else what it does otherwise."""
    name, before = name_of(point), name_of(asked)
    if name and name != before:
        beside = [words for words in point.differences(asked) if words in _beside(point)]
        return ", ".join([f"computes {name}", *beside])
    return ", ".join(point.differences(asked))


def _beside(point: Variant) -> tuple[str, ...]:
    """What a name does not say."""
    return point.kl.words, point.placement.words, point.rows.words, point.weighting.words
