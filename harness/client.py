"""The parent's side of a worker: cases go out, outcomes come back, whatever happens to its process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

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
from harness.worker_process import WorkerDied, WorkerProcess, find_python

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
    case, `start_timeout` for the start, both in seconds; `memory` is what the process may allocate, in bytes. A
    start that fails raises `TargetUnavailable` in whichever method needed it. For use from one thread.
    """

    def __init__(
        self,
        python: str,
        target: str,
        options: Mapping[str, str] = _NO_OPTIONS,
        cwd: Path | None = None,
        timeout: float = 60.0,
        start_timeout: float = 180.0,
        path: Sequence[Path] = (),
        memory: int | None = None,
    ) -> None:
        self._python = python
        self._target = target
        self._options = dict(options)
        self._cwd = cwd
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._path = tuple(path)
        self._memory = memory
        self._process: WorkerProcess | None = None
        self._facts: TargetFacts | None = None
        # When the outstanding case was sent, and its outcome where that was known on sending.
        self._submitted: float | None = None
        self._settled: Outcome | None = None

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
        process.forget_output()
        request = case_request(case, device, instead, attempt)
        self._submitted = time.monotonic()
        try:
            process.send(request, self._submitted + self._timeout)
        except (WorkerDied, TimeoutError) as failure:
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
                printed = process.output() if answer.header["status"] == "error" else ""
                outcome = Outcome.from_message(answer, printed)
            except (WorkerDied, TimeoutError, protocol.ProtocolError) as failure:
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
        sentence, printed = _end(process, failure, self._timeout)
        self._process = None
        status: Status = "timeout" if isinstance(failure, TimeoutError) else "crash"
        return Outcome(status, message=explained(sentence, "", printed), seconds=seconds)

    def _running(self) -> WorkerProcess:
        if self._process is None:
            try:
                process = WorkerProcess(find_python(self._python), self._cwd, self._path, self._memory)
            except OSError as error:
                # Of our own making it is a sentence; the system's own has a number and a file name.
                message = str(error) if error.errno is None else f"{self._python} cannot be started: {error}"
                raise TargetUnavailable("interpreter", message) from error
            try:
                self._facts = self._open(process)
            except BaseException:
                process.kill()
                raise
            self._process = process
        return self._process

    def _open(self, process: WorkerProcess) -> TargetFacts:
        deadline = time.monotonic() + self._start_timeout

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            process.send(protocol.pack(request), deadline)
            answer = process.receive(deadline).header
            if answer["status"] != "ok":
                raise TargetUnavailable.from_header(answer)
            return answer

        what = f"{self._python} cannot run a target"
        kind: FailureKind = "interpreter"
        try:
            hello = ask({"request": "hello", "protocol": protocol.PROTOCOL_VERSION})
            what, kind = f"{self._target} does not start", "broken"
            opened = ask({"request": "open", "target": self._target, "options": self._options})
        except (WorkerDied, TimeoutError, protocol.ProtocolError) as failure:
            sentence, printed = _end(process, failure, self._start_timeout)
            last = f" ({printed.splitlines()[-1]})" if printed else ""
            raise TargetUnavailable(kind, f"{what}: its process {sentence}{last}", details=printed) from None
        return TargetFacts.from_headers(hello, opened)


def _end(process: WorkerProcess, failure: Exception, timeout: float) -> tuple[str, str]:
    """End a process that failed to answer: what happened to it, and what it printed last."""
    if isinstance(failure, TimeoutError):
        process.print_stack()
        sentence = f"gave no answer within {timeout:g} s and was killed"
    elif isinstance(failure, protocol.ProtocolError):
        sentence = f"sent what is no answer and was killed ({failure})"
    elif process.wait():
        sentence = ""
    else:
        sentence = "closed its connection and was killed"
    printed = process.output()
    ended = process.kill()
    return sentence or ended, printed
