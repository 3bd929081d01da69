"""The parent's side of a worker: cases go out, outcomes come back, whatever happens to its process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, NamedTuple, Self

from cases.case import Case
from cases.dtypes import FloatArray
from harness.outcome import (
    FailureKind,
    Outcome,
    Status,
    TargetFacts,
    TargetSupport,
    TargetUnavailable,
    case_request,
    explained,
)
from harness.timings import Use
from harness.worker import protocol
from harness.worker_process import FAILURES, ORDINARY_PIPE, WorkerProcess
from harness.worker_start import Opening, Start, allowed, time_to_start

__all__ = [
    "FailureKind",
    "Outcome",
    "Status",
    "TargetFacts",
    "TargetSupport",
    "TargetUnavailable",
    "WorkerClient",
]

_NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})
_NOTHING: Final[Mapping[str, FloatArray]] = MappingProxyType({})

# An answer may lie ready, or be half written, when the parent comes late to fetch it.
_GRACE: Final = 1.0

AHEAD: Final = 256
"""Cases under way for which there is room."""

# Of what a pipe holds unread, so that neither side waits for the other to read.
_PART: Final = 0.5
_HEADER_BYTES: Final = 2**10
_POSITION_BYTES: Final = 6 * 8 + 1


class _Sent(NamedTuple):
    """A case under way."""

    number: int
    request: bytes


class WorkerClient:
    """A target in a process of its own, which starts when it is first needed, and anew after it has died.

        with WorkerClient(sys.executable, "trl") as client:
            outcome = client.ask(case)

    `python` is the interpreter the target is installed in; `cwd` the folder that `module:function` targets
    are imported from; `path` holds folders whose packages come before the interpreter's own. `timeout` is for one
    case, `start_timeout` for the start, both in seconds (None: three times the former, at least 30); `memory` is
    what the process may allocate, in bytes (None: no limit). A start that fails raises `TargetUnavailable` in
    whichever method needed it. For use from one thread.
    """

    def __init__(
        self,
        python: str,
        target: str,
        options: Mapping[str, str] = _NO_OPTIONS,
        cwd: Path | None = None,
        timeout: float = 60.0,
        start_timeout: float | None = None,
        path: Sequence[Path] = (),
        memory: int | None = None,
    ) -> None:
        self._timeout = timeout
        to_start = time_to_start(timeout) if start_timeout is None else start_timeout
        self._start = Start(python, target, dict(options), cwd, tuple(path), memory, to_start)
        self._opening: Opening | None = None
        self._process: WorkerProcess | None = None
        self._facts: TargetFacts | None = None
        self._under_way: deque[_Sent] = deque()
        # The bytes of all of them.
        self._ahead = 0
        self._arrived: dict[int, Outcome] = {}
        # When the process came to the first case under way.
        self._began = 0.0
        self._number = 0
        self._first: float | None = None
        self._last = self._busy = self._called = 0.0
        self._answered = 0

    def __enter__(self) -> Self:
        self._running()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._abandon()

    def begin(self) -> None:
        """Start the process, if there is none, without waiting for it: whatever needs it does."""
        if self._process is None and self._opening is None:
            self._opening = self._start.launch()

    @property
    def is_starting(self) -> bool:
        """Whether it would have to be waited for."""
        return self._opening is not None and not self._opening.is_done

    def knows(self, facts: TargetFacts) -> None:
        """Take what the target said of itself in another process, so that none is started to say it."""
        self._facts = facts

    @property
    def facts(self) -> TargetFacts:
        """What the target says of itself."""
        if self._facts is None:
            self._running()
        assert self._facts is not None
        return self._facts

    @property
    def use(self) -> Use:
        """What the time from the first case to the last answer went into."""
        wall = 0.0 if self._first is None or not self._answered else self._last - self._first
        return Use(self._answered, wall, self._busy, self._called)

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def ask(
        self,
        case: Case,
        device: str = "cpu",
        instead: Mapping[str, FloatArray] = _NOTHING,
        attempt: int = 0,
    ) -> Outcome:
        """Submit a case and wait for its outcome, whatever else is under way."""
        return self.receive(self.submit(case, device, instead, attempt))

    def has_room(self, case: Case) -> bool:
        """Whether to submit a case while others are under way, so that the process need not wait for it."""
        process = self._process
        # What is answered but not read is under way no more, and the process may have nothing left to do.
        while self._under_way and process is not None and process is self._process and process.has_written:
            self._fetch()
        is_wordy = self._process is not None and self._process.output.is_long
        return len(self._under_way) < AHEAD and self._fits(case) and not is_wordy

    def _fits(self, case: Case) -> bool:
        size = _HEADER_BYTES + _POSITION_BYTES * case.batch.mask.size
        holds = ORDINARY_PIPE if self._process is None else self._process.holds
        return self._ahead + size <= _PART * holds

    def submit(
        self,
        case: Case,
        device: str = "cpu",
        instead: Mapping[str, FloatArray] = _NOTHING,
        attempt: int = 0,
    ) -> int:
        """Send a case, and give the number by which `receive` knows it.

        `instead` has tensors to send in place of the case's, such as none that a case can hold; another
        `attempt` has another random seed. Cases are answered in the order in which they are sent; before one
        that there is no room for is sent, those under way are waited for.
        """
        while self._under_way and not self._fits(case):
            self._fetch()
        process = self._going()
        self._number += 1
        request = case_request(case, device, instead, attempt, self._number)
        alone = not self._under_way
        self._under_way.append(_Sent(self._number, request))
        self._ahead += len(request)
        if alone:
            process.output.forget()
            self._began = time.monotonic()
            self._first = self._began if self._first is None else self._first
        try:
            process.send(request, time.monotonic() + self._timeout)
        except FAILURES as failure:
            # Where others are under way, the first of them is what it died of: its answer is waited for in vain.
            if alone:
                self._lose(process, failure)
        except BaseException:
            self._abandon()
            raise
        return self._number

    def has_answer(self, number: int) -> bool:
        """Whether the outcome of a submitted case is here already."""
        return number in self._arrived

    def receive(self, number: int | None = None) -> Outcome:
        """Wait for the outcome of a submitted case: of that number, or the first whose outcome was not fetched."""
        if number is None:
            number = min([*self._arrived, *(sent.number for sent in self._under_way)], default=0)
        while number not in self._arrived:
            if all(sent.number != number for sent in self._under_way):
                raise RuntimeError("no such case is submitted")
            self._fetch()
        return self._arrived.pop(number)

    def _fetch(self) -> None:
        """Wait for the outcome of the first case under way."""
        process = self._going()
        sent = self._under_way[0]
        deadline = max(self._began + self._timeout, time.monotonic() + _GRACE)
        try:
            answer = process.receive(deadline)
            if answer.header.get("number") != sent.number:
                raise protocol.ProtocolError("it answers another case")
            printed = process.output.part(*answer.header.get("printed", (0, 0)))
            outcome = self._arrived[sent.number] = Outcome.from_message(answer, printed)
        except FAILURES as failure:
            self._lose(process, failure)
            return
        except BaseException:
            self._abandon()
            raise
        self._under_way.popleft()
        self._ahead -= len(sent.request)
        self._began = self._last = time.monotonic()
        self._answered += 1
        self._busy += answer.header.get("busy", 0.0)
        self._called += outcome.seconds

    def _going(self) -> WorkerProcess:
        """The process that has all that is under way: a new one is sent what was when the last one was lost."""
        if self._process is not None:
            return self._process
        process = self._running()
        self._began = time.monotonic()
        for sent in self._under_way:
            try:
                process.send(sent.request, self._began + self._timeout)
            except FAILURES:
                # What it died of is the first of them.
                break
            except BaseException:
                self._abandon()
                raise
        return process

    def close(self) -> None:
        """End the process, if there is one; a later case starts a new one."""
        try:
            if self._process is not None and not self._under_way:
                self._process.ask_to_end()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.abandon()
        process, self._process = self._process, None
        self._under_way.clear()
        self._ahead = 0
        self._arrived.clear()
        if process is not None:
            process.kill()

    def _lose(self, process: WorkerProcess, failure: Exception) -> None:
        """The outcome of the first case under way when the process is lost, and the end of that process."""
        seconds = time.monotonic() - self._began
        sentence, printed = process.end(failure, self._timeout)
        self._process = None
        status: Status = "timeout" if isinstance(failure, TimeoutError) else "crash"
        memory = self._start.memory
        if status == "crash" and memory is not None and "alloc" in printed:
            sentence = f"{sentence}, perhaps for want of memory: {allowed(memory)}"
        sent = self._under_way.popleft()
        self._ahead -= len(sent.request)
        self._arrived[sent.number] = Outcome(status, message=explained(sentence, "", printed), seconds=seconds)

    def _running(self) -> WorkerProcess:
        if self._process is None:
            self.begin()
            assert self._opening is not None
            opening, self._opening = self._opening, None
            self._process, self._facts = opening.finish()
        return self._process
