"""What is expected of questions, found before they are put: for many at once among those that come next."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cases.case import Case
from harness.remembered import expected_all
from oracles.batched.stacks import formula_of
from oracles.expectation import Expectation

T = TypeVar("T")

FIRST: Final = 256
"""Cases that are looked at before the first one is put; then two for every one that is put."""

MOST: Final = 6144
"""Cases ahead: the more, the more of them are of one formula."""

MOST_POSITIONS: Final = 2**20
"""Positions of all cases ahead, for the sake of memory."""


@dataclass
class Foreseen(Generic[T]):
    """A case that comes, with whatever belongs to it, and what is expected once it is its turn."""

    case: Case
    about: T
    formula: Hashable
    expectation: Expectation | None = None


def foresee(upcoming: Iterable[Sequence[tuple[Case, T]]]) -> Iterator[list[tuple[Case, T, Expectation]]]:
    """Groups of cases in the order they come in, each case with what is expected of it."""
    groups = iter(upcoming)
    ahead: deque[list[Foreseen[T]]] = deque()
    waiting: defaultdict[Hashable, list[Foreseen[T]]] = defaultdict(list)
    room, positions, more = FIRST, 0, True
    while True:
        while more and len(ahead) < room and positions < MOST_POSITIONS:
            group = next(groups, None)
            if group is None:
                more = False
                break
            ahead.append([Foreseen(case, about, formula_of(case)) for case, about in group])
            for one in ahead[-1]:
                waiting[one.formula].append(one)
                positions += one.case.batch.mask.size
        if not ahead:
            return
        room = min(room + 1, MOST)
        ready = []
        for one in ahead.popleft():
            if one.expectation is None:
                _settle(waiting.pop(one.formula))
            assert one.expectation is not None
            ready.append((one.case, one.about, one.expectation))
            positions -= one.case.batch.mask.size
        yield ready


def _settle(alike: Sequence[Foreseen[T]]) -> None:
    for one, expectation in zip(alike, expected_all([one.case for one in alike]), strict=True):
        one.expectation = expectation
