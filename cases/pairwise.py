"""Pairwise coverage: few combinations in which every pair of values of two options occurs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

Combination = dict[str, Any]


def covering(options: Mapping[str, Sequence[Any]]) -> tuple[Combination, ...]:
    """Combinations of one value an option, such that every pair of values of every two options occurs.

    Greedy and deterministic: each combination takes in turn the value that covers most pairs not covered yet, the
    earlier value where two are equal. The first combination holds the first value of every option.
    """
    names = list(options)
    missing = {
        ((one, a), (two, b))
        for one, two in combinations(range(len(names)), 2)
        for a, b in product(range(len(options[names[one]])), range(len(options[names[two]])))
    }
    made: list[list[int]] = []
    while missing:
        # The first combination is all first values; later ones start from a pair that is still missing.
        chosen: dict[int, int] = {} if made else dict.fromkeys(range(len(names)), 0)
        if made:
            chosen.update(min(missing))
        for option in range(len(names)):
            if option not in chosen:
                chosen[option] = _best(option, len(options[names[option]]), chosen, missing)
        row = [chosen[option] for option in range(len(names))]
        missing -= set(combinations(enumerate(row), 2))
        made.append(row)
    return tuple({name: options[name][value] for name, value in zip(names, row, strict=True)} for row in made)


def _best(
    option: int,
    values: int,
    chosen: Mapping[int, int],
    missing: set[tuple[tuple[int, int], tuple[int, int]]],
) -> int:
    def gain(value: int) -> int:
        pairs = (tuple(sorted(((option, value), other))) for other in chosen.items())
        return sum(pair in missing for pair in pairs)

    return max(range(values), key=gain)
