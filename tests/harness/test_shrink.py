"""Shrinking: small, readable, still failing, and within a budget of questions."""

from __future__ import annotations

import numpy as np

from cases.case import Case
from cases.descriptions import Description, Layout, Row
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.shrink import shrink


def start() -> Case:
    description = Description(tuple(Row(Layout.FULL) for _ in range(4)), columns=6, seed=5)
    return case_for(description, realise(description, FLOAT32, Level.TOKEN), LossType.GRPO, Level.TOKEN, 0.04)


def test_what_always_fails_shrinks_to_one_readable_token() -> None:
    """Without a condition one token is left, and its numbers have no long tail of digits."""
    small = shrink(start(), lambda _: True, budget=500)
    assert small.batch.logps.shape == (1, 1)
    for values in (small.batch.logps, small.batch.advantages):
        assert np.array_equal(values, np.round(values))


def test_what_needs_two_lengths_keeps_them() -> None:
    """The condition is kept: two completions of different lengths stay, everything else goes."""

    def fails(case: Case) -> bool:
        lengths = set(case.batch.lengths.tolist()) - {0}
        return len(lengths) > 1

    small = shrink(start(), lambda case: fails(case) or case == start(), budget=500)
    assert fails(small)
    assert small.batch.rows == 2
    assert small.batch.tokens == 3


def test_the_budget_counts_questions() -> None:
    """No more questions than the budget, and none twice."""
    asked: list[str] = []

    def fails(case: Case) -> bool:
        asked.append(case.id)
        return len(asked) % 3 == 0

    shrink(start(), fails, budget=40)
    assert len(asked) == 40
    assert len(set(asked)) == 40


def test_what_cannot_be_made_simpler_is_returned() -> None:
    """If nothing simpler fails, the case itself is the answer."""
    assert shrink(start(), lambda _: False) == start()
