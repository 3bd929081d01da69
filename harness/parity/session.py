"""All executions at work, each in processes and a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from harness.asking import Contestant
from harness.parity.asking import Answers, Lane
from harness.parity.execution import Execution, client_of, contestant_of
from harness.parity.plan import ParityPlan
from harness.parity.questions import CellKey, Question, covering

LANES_COMPILED: Final = 2
"""Processes of a compiled execution, which take the dtypes in turn: compiling is most of the work."""

Tick = Callable[[int], None]
"""Called with the number of questions that were answered."""


@dataclass(frozen=True)
class Open:
    """An execution whose processes have started, one contestant a lane; or why it cannot run here."""

    execution: Execution
    lanes: tuple[Contestant, ...] = ()
    why_not: str = ""

    @property
    def one(self) -> Contestant:
        """The first lane's, which stands for all."""
        return self.lanes[0]


class Session:
    """Executions that have started, and the threads in which they are asked."""

    def __init__(
        self, plan: ParityPlan, opened: Sequence[Open], pool: ThreadPoolExecutor, stop: threading.Event
    ) -> None:
        self.opened = opened
        self._plan = plan
        self._pool = pool
        self._stop = stop

    def answers(
        self, questions: Mapping[CellKey, Sequence[Question]], tick: Tick
    ) -> Iterator[tuple[Open, dict[CellKey, list[Answers]]]]:
        """What every available execution answers, cell by cell: those cells that its target has."""
        lanes = [
            (one, lane)
            for one in self.opened
            for lane in _lanes(one, self._compiled(questions) if one.execution.is_compiled else questions)
        ]

        def count(answered: int) -> None:
            if self._stop.is_set():
                raise Interrupted
            tick(answered)

        under_way: list[tuple[Open, Future[dict[CellKey, list[Answers]]]]] = [
            (one, self._pool.submit(lane.answers, count)) for one, lane in lanes
        ]
        found: dict[Execution, dict[CellKey, list[Answers]]] = {}
        for one, future in under_way:
            found.setdefault(one.execution, {}).update(future.result())
        for one in self.opened:
            if one.lanes:
                yield one, found.get(one.execution, {})

    def _compiled(self, questions: Mapping[CellKey, Sequence[Question]]) -> Mapping[CellKey, Sequence[Question]]:
        if self._plan.every_cell:
            return questions
        taken = covering(self._plan.cells)
        return {cell: asked for cell, asked in questions.items() if cell in taken}


class Interrupted(RuntimeError):
    """The session is being left: nothing more is asked."""


def _lanes(one: Open, questions: Mapping[CellKey, Sequence[Question]]) -> Iterator[Lane]:
    dtypes = list(dict.fromkeys(cell.dtype for cell in questions))
    for number, lane in enumerate(one.lanes):
        own = dtypes[number :: len(one.lanes)]
        yield Lane(
            one.execution,
            lane,
            {
                cell: asked
                for cell, asked in questions.items()
                if cell.dtype in own and lane.takes(cell.loss_type, cell.level, cell.dtype)
            },
        )


@contextmanager
def session(plan: ParityPlan) -> Iterator[Session]:
    """Start every execution of a plan; leaving ends their processes. Raises `TargetUnavailable`."""
    stop = threading.Event()
    with ExitStack() as stack:
        # A process ends with the thread that started it: threads last as long as the session.
        most = len(plan.executions) * LANES_COMPILED
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=most))
        starting = [(execution, _starting(plan, execution, pool, stack)) for execution in plan.executions]
        try:
            yield Session(plan, [_opened(execution, lanes) for execution, lanes in starting], pool, stop)
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _starting(
    plan: ParityPlan, execution: Execution, pool: ThreadPoolExecutor, stack: ExitStack
) -> list[Future[Contestant | str]]:
    lanes = min(LANES_COMPILED, len(plan.cells.dtypes)) if execution.is_compiled else 1
    clients = [client_of(plan.cells, execution) for _ in range(lanes)]
    for client in clients:
        stack.callback(client.close)
    return [pool.submit(contestant_of, plan.cells, execution, client) for client in clients]


def _opened(execution: Execution, lanes: Sequence[Future[Contestant | str]]) -> Open:
    found = [lane.result() for lane in lanes]
    why_not = next((one for one in found if isinstance(one, str)), "")
    return Open(execution, tuple(one for one in found if not isinstance(one, str)) if not why_not else (), why_not)
