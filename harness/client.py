"""The parent's side of a worker: cases go out, outcomes come back, whatever happens to its process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

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
from harness.worker import protocol
from harness.worker_process import FAILURES, WorkerProcess
from harness.worker_start import Start, allowed, time_to_start

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
        if start_timeout is None:
            start_timeout = time_to_start(timeout)
        self._start = Start(python, target, dict(options), cwd, tuple(path), memory, start_timeout)
        self._process: WorkerProcess | None = None
        self._facts: TargetFacts | None = None
        # When the outstanding case was sent, and its outcome where that was known on sending.
        self._submitted: float | None = None
        self._settled: Outcome | None = None
        self._number = 0

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

    @property
    def facts(self) -> TargetFacts:
        """What the target says of itself."""
        if self._facts is None:
            self._running()
        assert self._facts is not None
        return self._facts

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
        """Submit a case and wait for its outcome."""
        self.submit(case, device, instead, attempt)
        return self.receive()

    def submit(
        self,
        case: Case,
        device: str = "cpu",
        instead: Mapping[str, FloatArray] = _NOTHING,
        attempt: int = 0,
    ) -> None:
        """Send a case, whose outcome `receive` then waits for; one at a time.

        `instead` has tensors to send in place of the case's, such as none that a case can hold; another
        `attempt` has another random seed.
        """
        if self._submitted is not None:
            raise RuntimeError("a case is submitted already: receive its outcome first")
        process = self._running()
        process.output.forget()
        self._number += 1
        request = case_request(case, device, instead, attempt, self._number)
        self._submitted = time.monotonic()
        try:
            process.send(request, self._submitted + self._timeout)
        except FAILURES as failure:
            self._settled = self._lost(process, failure)
        except BaseException:
            self._abandon()
            raise

    def receive(self) -> Outcome:
        """Wait for the outcome of the submitted case."""
        if self._submitted is None:
            raise RuntimeError("no case is submitted")
        outcome = self._settled
        process = self._process
        if process is not None:
            deadline = max(self._submitted + self._timeout, time.monotonic() + _GRACE)
            try:
                answer = process.receive(deadline)
                if answer.header.get("number") != self._number:
                    raise protocol.ProtocolError("it answers another case")
                printed = process.output.end() if answer.header["status"] == "error" else ""
                outcome = Outcome.from_message(answer, printed)
            except FAILURES as failure:
                outcome = self._lost(process, failure)
            except BaseException:
                self._abandon()
                raise
        assert outcome is not None
        self._submitted = self._settled = None
        return outcome

    def close(self) -> None:
        """End the process, if there is one; a later case starts a new one."""
        try:
            if self._process is not None and self._submitted is None:
                self._process.ask_to_end()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        process, self._process = self._process, None
        self._submitted = self._settled = None
        if process is not None:
            process.kill()

    def _lost(self, process: WorkerProcess, failure: Exception) -> Outcome:
        """The outcome of the submitted case when its process is lost, and the end of that process."""
        assert self._submitted is not None
        seconds = time.monotonic() - self._submitted
        sentence, printed = process.end(failure, self._timeout)
        self._process = None
        status: Status = "timeout" if isinstance(failure, TimeoutError) else "crash"
        memory = self._start.memory
        if status == "crash" and memory is not None and "alloc" in printed:
            sentence = f"{sentence}, perhaps for want of memory: {allowed(memory)}"
        return Outcome(status, message=explained(sentence, "", printed), seconds=seconds)

    def _running(self) -> WorkerProcess:
        if self._process is None:
            self._process, self._facts = self._start.begin()
        return self._process
