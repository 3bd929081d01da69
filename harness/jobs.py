"""Several processes that judge: each takes whole descriptions, with target processes of its own.

Results come back in the order of the schedule, so that a run has the same rows however many there are.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack

from harness.asking import Contestant
from harness.events import CaseJudged
from harness.generation import Scheduled
from harness.judging import judged_entry, open_contestants
from harness.outcome import TargetUnavailable
from harness.plan import Plan

_plan: Plan | None = None
_contestants: list[Contestant] | None = None
_stack = ExitStack()


def judged_by_jobs(plan: Plan, entries: Sequence[Scheduled], jobs: int) -> Iterator[list[CaseJudged]]:
    """What becomes of each description, in order.

    Raises `TargetUnavailable` when a target does not start in one of the processes, or one of them dies.
    """
    # Not forked: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(plan, os.getpid()))
    try:
        yield from executor.map(_judge, entries)
    except BrokenProcessPool:
        raise TargetUnavailable("broken", "a judging process died; what was judged is on disk") from None
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _begin(plan: Plan, parent: int) -> None:
    global _plan
    _plan = plan
    # Ctrl-C is the parent's business; it ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with, args=(parent,), daemon=True).start()


def _die_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _judge(entry: Scheduled) -> list[CaseJudged]:
    global _contestants
    assert _plan is not None
    if _contestants is None:
        _contestants = open_contestants(_plan, _stack)
    return list(judged_entry(_plan, entry, _contestants))
