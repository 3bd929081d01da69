"""Which cases of a cell a signature is read off: few, to be quick; varied, to rule explanations out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cases.case import Case
from cases.regions import regions_of

MOST_FAILING: Final = 20
MOST_CONFORMING: Final = 14
MOST_TELLING: Final = 8
TELLING_TOKENS: Final = 9


def failing_ones(cases: Iterable[Case]) -> list[Case]:
    """Those of the size that tells most, then those that bring regions of input space not met yet, small first.

    A case of one token tells a clip from its absence; two terms of a loss are told apart by several tokens.
    """
    smallest_first = sorted(cases, key=lambda case: case.batch.mask.size)
    telling = sorted(smallest_first, key=_from_telling)[:MOST_TELLING]
    others = [case for case in smallest_first if not any(case is one for one in telling)]
    return [*telling, *_varied(others, MOST_FAILING - len(telling))]


def conforming_ones(cases: Iterable[Case]) -> list[Case]:
    """Those that bring regions of input space not met yet, of the size that tells most first.

    Tiny cases conform to much; a conforming case near a failing one rules out what would have it fail, too.
    """
    return _varied(sorted(cases, key=_from_telling), MOST_CONFORMING)


def _from_telling(case: Case) -> int:
    return abs(case.batch.tokens - TELLING_TOKENS)


def _varied(cases: Sequence[Case], most: int) -> list[Case]:
    left = [(case, frozenset(regions_of(case))) for case in cases]
    chosen: list[Case] = []
    met: frozenset[str] = frozenset()
    while left and len(chosen) < most:
        best = max(left, key=lambda one: len(one[1] - met))
        left.remove(best)
        chosen.append(best[0])
        met |= best[1]
    return chosen
