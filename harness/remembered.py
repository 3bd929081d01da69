"""What is right for a case, remembered: one process may put the same cases to many targets in turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from cases.case import Case
from oracles.batched.stacks import expect_all
from oracles.expectation import Expectation

LARGEST: Final = 64
"""Cases of more positions are not kept: they are few, and take room."""

MOST: Final = 8192

_KEPT: OrderedDict[str, Expectation] = OrderedDict()


def expected(case: Case) -> Expectation:
    """What is expected of a case, from memory where it is one of the latest small ones."""
    return expected_all([case])[0]


def expected_all(cases: Sequence[Case]) -> list[Expectation]:
    """What is expected of each case; those that are not remembered are evaluated together."""
    new = {case.id: case for case in cases if case.id not in _KEPT}
    found = dict(zip(new, expect_all(list(new.values())), strict=True))
    expectations = [found.get(case.id) or _KEPT[case.id] for case in cases]
    _KEPT.update({name: found[name] for name, case in new.items() if case.batch.mask.size <= LARGEST})
    while len(_KEPT) > MOST:
        _KEPT.popitem(last=False)
    return expectations
