"""The place where a row of candidates changes, found by looking at few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum


class Side(Enum):
    """Which end of the row a candidate is like; a skipped one cannot be told."""

    FIRST = "first"
    LAST = "last"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Change:
    """Between which candidates it lies, by their numbers; all between the two were skipped."""

    before: int
    after: int

    @property
    def skipped(self) -> range:
        """The candidates that may be the first changed one, beside `after`."""
        return range(self.before + 1, self.after)


def at_most(size: int) -> int:
    """How many of `size` candidates are looked at, both ends and those of `change`, if none is skipped."""
    return min(size, 2 + max(size - 2, 0).bit_length())


def change(size: int, side: Callable[[int], Side]) -> Change:
    """Where `size` candidates change, the first being like the first end and the last like the last.

    Halves what is left with every candidate that is not skipped: ceil(log2(size - 1)) of them. Neighbours of a
    skipped one are tried instead, the nearest first.
    """
    before, after = 0, size - 1
    skipped: set[int] = set()
    while True:
        left = [number for number in _from_the_middle(before, after) if number not in skipped]
        if not left:
            return Change(before, after)
        match side(left[0]):
            case Side.FIRST:
                before = left[0]
            case Side.LAST:
                after = left[0]
            case Side.SKIPPED:
                skipped.add(left[0])


def _from_the_middle(before: int, after: int) -> Iterator[int]:
    """The numbers between two, the middle first, then by their distance to it."""
    middle = (before + after) // 2
    yield from sorted(range(before + 1, after), key=lambda number: abs(number - middle))
