"""Several processes that judge: each takes whole descriptions, with target processes of its own.

Results come back in the order of the schedule, so that a run has the same rows however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial

from harness.asking import Contestant
from harness.events import CaseJudged
from harness.generation import Scheduled
from harness.judging import judged_entry, open_contestants
from harness.outcome import TargetUnavailable
from harness.plan import Plan
from harness.processes import companions

_contestants: list[Contestant] | None = None
_stack = ExitStack()


def judged_by_jobs(plan: Plan, entries: Sequence[Scheduled], jobs: int) -> Iterator[list[CaseJudged]]:
    """What becomes of each description, in order.

    Raises `TargetUnavailable` when a target does not start in one of the processes, or one of them dies.
    """
    with companions(jobs) as pool:
        try:
            yield from pool.map(partial(_judge, plan), entries)
        except BrokenProcessPool:
            raise TargetUnavailable("broken", "a judging process died; what was judged is on disk") from None


def _judge(plan: Plan, entry: Scheduled) -> list[CaseJudged]:
    global _contestants
    if _contestants is None:
        _contestants = open_contestants(plan, _stack)
    return list(judged_entry(plan, entry, _contestants))
