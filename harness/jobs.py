"""Several processes that judge: each takes a few descriptions at a time, with target processes of its own.

Results come back in the order of the schedule, so that a run has the same rows however many there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final, TypeVar

from harness import padding
from harness.asking import Contestant
from harness.client import TargetFacts
from harness.events import CaseJudged, PaddingChecked
from harness.generation import Scheduled
from harness.judging import judged_entries, open_contestants
from harness.outcome import TargetUnavailable
from harness.padding import Checkup
from harness.plan import Plan
from harness.posing import Questions
from harness.processes import companions
from harness.timings import Use

TOGETHER: Final = 24
"""Descriptions that a process takes: many have more cases of one formula, few are done sooner."""

T = TypeVar("T")
R = TypeVar("R")

_contestants: list[Contestant] | None = None
_stack = ExitStack()


class Jobs:
    """The processes that judge for a plan; they start their targets at once.

    Every method raises `TargetUnavailable` when a target does not start in one of them, or one of them dies.
    """

    def __init__(self, plan: Plan, pool: ProcessPoolExecutor) -> None:
        self._plan = plan
        self._pool = pool
        self._uses: dict[int, tuple[Use, ...]] = {}
        self._opened = [pool.submit(_open, plan) for _ in range(plan.jobs)]

    @property
    def facts(self) -> tuple[TargetFacts, ...]:
        """What each target of the plan says of itself."""
        with _one_may_die():
            return self._opened[0].result()

    @property
    def uses(self) -> Iterable[tuple[Use, ...]]:
        """What the targets of each process did so far, in the order of the plan."""
        return self._uses.values()

    def judged(self, entries: Sequence[Scheduled]) -> Iterator[CaseJudged]:
        """What becomes of each description, in order."""
        pieces = [entries[first : first + TOGETHER] for first in range(0, len(entries), TOGETHER)]
        return self._shared_out(_judge, pieces)

    def checked(self, checkups: Sequence[Checkup]) -> Iterator[PaddingChecked]:
        """What each checkup of padding hygiene finds, in order."""
        return self._shared_out(_check, checkups)

    def _shared_out(self, work: Callable[[Plan, T], list[R]], pieces: Iterable[T]) -> Iterator[R]:
        with _one_may_die():
            for found, process, uses in self._pool.map(partial(_done, work, self._plan), pieces):
                self._uses[process] = uses
                yield from found


@contextmanager
def jobs_of(plan: Plan) -> Iterator[Jobs]:
    """The processes of a plan, which end with the context."""
    with companions(plan.jobs) as pool:
        yield Jobs(plan, pool)


@contextmanager
def _one_may_die() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise TargetUnavailable("broken", "a judging process died; what was judged is on disk") from None


def _open(plan: Plan) -> tuple[TargetFacts, ...]:
    return tuple(one.client.facts for one in _opened(plan))


def _judge(plan: Plan, entries: Sequence[Scheduled]) -> list[CaseJudged]:
    return list(judged_entries(Questions(plan), entries, _opened(plan)))


def _check(plan: Plan, checkup: Checkup) -> list[PaddingChecked]:
    return list(padding.found(plan, [checkup], _opened(plan)))


def _done(work: Callable[[Plan, T], list[R]], plan: Plan, piece: T) -> tuple[list[R], int, tuple[Use, ...]]:
    """A piece of work, which process did it, and what its targets did so far."""
    found = work(plan, piece)
    return found, os.getpid(), tuple(one.client.use for one in _opened(plan))


def _opened(plan: Plan) -> list[Contestant]:
    global _contestants
    if _contestants is None:
        _contestants = open_contestants(plan, _stack)
    return _contestants
