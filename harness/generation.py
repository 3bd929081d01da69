"""The descriptions of a run: the boundary phase, then what Hypothesis draws."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import HealthCheck, Phase, given, seed, settings

from cases.descriptions import Description, descriptions
from cases.schedule import boundary_descriptions


@dataclass(frozen=True)
class Scheduled:
    """A description, its running number in the run and the phase it belongs to."""

    number: int
    phase: str
    description: Description


def schedule(examples: int, random_seed: int) -> tuple[Scheduled, ...]:
    """Every boundary region once, then `examples` drawn descriptions; equal arguments give equal schedules."""
    return tuple(
        Scheduled(number, phase, description)
        for number, (phase, description) in enumerate(_phases(examples, random_seed))
    )


def _phases(examples: int, random_seed: int) -> Iterator[tuple[str, Description]]:
    for description in boundary_descriptions():
        yield "regions", description
    for description in draw(examples, random_seed):
        yield "drawn", description


def draw(examples: int, random_seed: int) -> list[Description]:
    """What Hypothesis draws with a seed: `examples` descriptions, in one pass that only generates."""
    drawn: list[Description] = []

    @seed(random_seed)
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),  # nothing is filtered, and drawing takes what it takes
    )
    @given(descriptions())
    def record(description: Description) -> None:
        drawn.append(description)

    with tempfile.TemporaryDirectory() as folder:
        # Hypothesis keeps a cache of constants in the working directory even without a database.
        before = os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY")
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        try:
            record()
        finally:
            if before is None:
                del os.environ["HYPOTHESIS_STORAGE_DIRECTORY"]
            else:
                os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = before
    return drawn
