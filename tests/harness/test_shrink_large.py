"""Shrinking a large batch: by blocks, to a small one where that still fails, and never without end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cases.case import Case
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.large import large_descriptions
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.generation import LARGE, PHASES, schedule
from harness.shrink import POSITIONS, shrink


def largest() -> Case:
    description = large_descriptions()[-1]
    batch = realise(description, FLOAT32, Level.TOKEN)
    return case_for(description, batch, LossType.GRPO, Level.TOKEN, 0.04)


@pytest.mark.parametrize(
    ("fails", "size"),
    [
        (lambda case: case.batch.tokens > 2048, 2049),
        (lambda case: case.batch.columns > 1024, 1025),
        (lambda case: case.batch.rows > 40, 41),
        (lambda _: True, 1),
    ],
    ids=["tokens", "columns", "rows", "always"],
)
def test_what_depends_on_size_shrinks_to_that_size(fails: Callable[[Case], bool], size: int) -> None:
    """From 262,144 tokens to the first number that fails."""
    assert shrink(largest(), fails).batch.tokens == size


def test_what_does_not_shrink_ends() -> None:
    """No more is asked than a few large batches, and the same ones every time."""
    asked: list[tuple[str, int]] = []

    def fails(case: Case) -> bool:
        asked.append((case.id, case.batch.mask.size))
        return len(asked) == 3

    shrink(largest(), fails)
    first = list(asked)
    asked.clear()
    shrink(largest(), fails)
    assert asked == first
    assert sum(size for _, size in asked) < POSITIONS + largest().batch.mask.size


def test_large_batches_come_last_and_change_nothing_before() -> None:
    """The schedule without them is the beginning of the one with them; each has numbers of its own."""
    with_large, without = schedule(3, 7, large=True), schedule(3, 7)
    assert with_large[: len(without)] == without
    rest = with_large[len(without) :]
    assert {entry.phase for entry in rest} == {LARGE}
    assert LARGE not in PHASES
    assert len({entry.description.seed for entry in rest}) == len(rest) == len(large_descriptions())
