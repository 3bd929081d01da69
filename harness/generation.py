"""The descriptions of a run: the corpus, the boundary phase, what Hypothesis draws, large batches if asked for."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings

from cases.corpus.entries import judged
from cases.descriptions import OPTIONS, Description, descriptions
from cases.large import large_descriptions
from cases.pairwise import covering
from cases.schedule import boundary_descriptions

PHASES: Final = ("corpus", "regions", "drawn")
"""The phases whose cases are small, in order: what tells formulas apart, or what is wrong, is read off these."""

LARGE: Final = "large"
SCHEDULED: Final = (*PHASES, LARGE)
"""The phases of a schedule, in order."""

MOST_EXAMPLES: Final = 2**20
SEEDS_PER_RUN: Final = 2 * MOST_EXAMPLES


@dataclass(frozen=True)
class Scheduled:
    """A description, its running number in the run and the phase it belongs to."""

    number: int
    phase: str
    description: Description


def schedule(examples: int, random_seed: int, large: bool = False) -> tuple[Scheduled, ...]:
    """The corpus, every boundary region once, `examples` drawn descriptions, large batches where `large` says so.

    Equal arguments give equal schedules, and the large ones change nothing in what comes before them.

    Every entry has a seed of its own, so that a description that Hypothesis repeats is another case, and the
    boundary phase has other numbers with another `random_seed`.
    """
    return tuple(
        Scheduled(number, phase, replace(description, seed=random_seed * SEEDS_PER_RUN + number))
        for number, (phase, description) in enumerate(_phases(examples, random_seed, large))
    )


def corpus_names() -> dict[int, str]:
    """The names of the corpus cases, by the running numbers of their descriptions in every run."""
    return {number: entry.name for number, (entry, _) in enumerate(judged())}


def _phases(examples: int, random_seed: int, large: bool) -> Iterator[tuple[str, Description]]:
    for _, description in judged():
        yield "corpus", description
    for description in boundary_descriptions():
        yield "regions", description
    combinations = covering(OPTIONS)
    for number, description in enumerate(draw(examples, random_seed)):
        # Options are not left to chance: every pair of their values occurs among the first few dozen.
        yield "drawn", replace(description, **combinations[number % len(combinations)])
    for description in large_descriptions() if large else ():
        yield LARGE, description


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
        before, callbacks = os.environ.get("HYPOTHESIS_STORAGE_DIRECTORY"), list(gc.callbacks)
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        try:
            record()
        finally:
            if before is None:
                del os.environ["HYPOTHESIS_STORAGE_DIRECTORY"]
            else:
                os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = before
            # It times every garbage collection from now on, and an interrupt that comes meanwhile would be lost.
            gc.callbacks[:] = callbacks
    return drawn
