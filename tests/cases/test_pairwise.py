"""Pairwise coverage of options, in the arrays and in a run."""

from __future__ import annotations

from itertools import combinations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cases.descriptions import OPTIONS
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.pairwise import covering
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.generation import schedule


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_every_pair_of_values_occurs(sizes: list[int]) -> None:
    """Whatever the options, no pair of values of two of them is missing, and the first row is all first values."""
    options = {f"option {n}": tuple(range(size)) for n, size in enumerate(sizes)}
    rows = covering(options)
    for one, two in combinations(options, 2):
        assert {(row[one], row[two]) for row in rows} == {(a, b) for a in options[one] for b in options[two]}
    if rows:
        assert set(rows[0].values()) == {0}


def test_few_rows_cover_the_options_of_a_case() -> None:
    """The array is as small as the two largest options allow, or nearly."""
    sizes = sorted((len(values) for values in OPTIONS.values()), reverse=True)
    assert sizes[0] * sizes[1] <= len(covering(OPTIONS)) <= 1.5 * sizes[0] * sizes[1]


@pytest.mark.parametrize("level", Level)
def test_a_default_run_meets_every_pair(level: Level) -> None:
    """With the default number of examples every pair of options occurs in the drawn cases of a cell."""
    drawn = [entry.description for entry in schedule(64, 0) if entry.phase == "drawn"]
    for one, two in combinations(OPTIONS, 2):
        met = {(getattr(description, one), getattr(description, two)) for description in drawn}
        assert len(met) == len(OPTIONS[one]) * len(OPTIONS[two])
    # And the options are in the cases, not only in the descriptions.
    cases = [case_for(d, realise(d, FLOAT32, level), LossType.GRPO, level, 0.04) for d in drawn]
    assert {case.split for case in cases} == set(OPTIONS["split"])
    assert {case.batch.advantages.ndim for case in cases} == {1, 2}
