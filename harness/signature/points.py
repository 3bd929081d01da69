"""Which nearby formula of the space explains a cell: another named loss, or one choice otherwise than asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from cases.spec import Level, LossSpec, LossType
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Hypothesis
from oracles.space.identities import canonical
from oracles.space.names import name_of, variant_of
from oracles.space.pieces import Pieces
from oracles.space.variant import AXES, Variant


@dataclass(frozen=True)
class Change:
    """Choices that take the place of those asked for; a case that asks for none of `instead_of` is as asked.

    Both are axes and choices.
    """

    choices: tuple[tuple[str, Enum], ...]
    instead_of: tuple[tuple[str, Enum], ...] = ()

    def of(self, asked: Variant) -> Variant:
        """The point that is computed where another is asked for."""
        if any(getattr(asked, axis) is not choice for axis, choice in self.instead_of):
            return asked
        return canonical(replace(asked, **dict(self.choices)))  # type: ignore[arg-type]  # each axis has its own type


def points(evidence: Evidence) -> Iterator[Hypothesis]:
    """The formulas nearby, told as they differ from the one that is asked for."""
    pieces = {one: Pieces(one.case) for one in evidence}
    asked = {one: variant_of(one.case.spec) for one in evidence}
    tried: dict[Change, None] = {}
    for one in evidence.telling:
        tried |= dict.fromkeys(_changes(asked[one]))
    for change in tried:

        def explains(one: Answered, change: Change = change) -> bool:
            return _explains(change.of(asked[one]), one, pieces[one])

        def differs(one: Answered, change: Change = change) -> bool:
            return change.of(asked[one]) != asked[one]

        def told(one: Answered, change: Change = change) -> str:
            return _told(change.of(asked[one]), asked[one])

        yield Hypothesis(evidence, explains, differs, told)


def _changes(asked: Variant) -> Iterator[Change]:
    """The plainest first; changes that come to the same formula are not merged, since cases differ in options."""
    seen = {asked}
    for loss_type in LossType:
        for level in Level:
            named = variant_of(LossSpec(loss_type, level))
            change = Change(tuple((axis, getattr(named, axis)) for axis in ("aggregation", "surrogate", "ratio")))
            point = change.of(asked)
            if point not in seen:
                seen.add(point)
                yield change
    for axis in AXES:
        now = getattr(asked, axis)
        for choice in type(now):
            if choice is not now:
                yield Change(((axis, choice),), ((axis, now),))


def _explains(point: Variant, one: Answered, pieces: Pieces) -> bool:
    return one.loses(pieces.loss(point), pieces.overflows) and one.explained_by(pieces.expectation(point))


def _told(point: Variant, asked: Variant) -> str:
    """That it computes a loss of another name, else what it does otherwise."""
    name, before = name_of(point), name_of(asked)
    if name and name != before:
        return ", ".join([f"computes {name}", *_differences(point, asked, _BESIDE)])
    return ", ".join(_differences(point, asked, AXES))


def _differences(point: Variant, asked: Variant, axes: Sequence[str]) -> Iterator[str]:
    for axis in AXES:
        if axis in axes and getattr(point, axis) is not getattr(asked, axis):
            yield f"{_SUBJECTS.get(axis, '')}{getattr(point, axis).words}"


_BESIDE = ("kl", "placement", "rows", "weighting")
"""What a name does not say."""

_SUBJECTS = {"kl": "KL term: ", "placement": "KL term "}
