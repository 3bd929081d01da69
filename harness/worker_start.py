"""The start of a target's process, up to its first facts, and what is said where it fails."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.outcome import FailureKind, TargetFacts, TargetUnavailable
from harness.worker import protocol
from harness.worker_process import FAILURES, WorkerProcess, find_python

_CASES: Final = 3
_SHORTEST: Final = 30.0
_HINT_ON_TIME: Final = f"a start may take {_CASES} times --timeout, at least {_SHORTEST:g} s"

# Importing torch and a trainer takes 1.5 GB, and fails in many words where there is less.
_ENOUGH_MEMORY: Final = 2**32


@dataclass(frozen=True)
class Start:
    """How a target's process is started; the fields are those of `WorkerClient`."""

    python: str
    target: str
    options: Mapping[str, str]
    cwd: Path | None
    path: tuple[Path, ...]
    memory: int | None
    timeout: float

    def launch(self) -> Opening:
        """A process that is about to open the target.

        Raises `TargetUnavailable` when there is no such interpreter or folder.
        """
        try:
            if not os.path.isdir(self.cwd or "."):
                raise FileNotFoundError(f"the folder that {self.target} is to start in is gone: {self.cwd or '.'}")
            return Opening(self, WorkerProcess(find_python(self.python), self.cwd, self.path))
        except OSError as error:
            # Of our own making it is a sentence; the system's own has a number and a file name.
            message = str(error) if error.errno is None else f"{self.python} cannot be started: {error}"
            raise TargetUnavailable("interpreter", message) from error

    @property
    def requests(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a process is asked first."""
        return (
            {"request": "hello", "protocol": protocol.PROTOCOL_VERSION, "memory": self.memory},
            {"request": "open", "target": self.target, "options": self.options},
        )

    @property
    def hint_on_memory(self) -> str:
        """What a failure may be due to, or ""."""
        if self.memory is None or self.memory >= _ENOUGH_MEMORY:
            return ""
        return f"{allowed(self.memory)}; to import torch and a library can take 2 GB"


class Opening:
    """A process that is opening a target, which takes as long as importing a library does."""

    def __init__(self, start: Start, process: WorkerProcess) -> None:
        self._start = start
        self._process = process
        self._deadline = time.monotonic() + start.timeout
        self._answers: list[dict[str, Any]] = []
        self._failure: Exception | None = None
        try:
            for request in start.requests:
                process.send(protocol.pack(request), self._deadline)
        except FAILURES as failure:
            self._failure = failure
        except BaseException:
            process.kill()
            raise

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to wait for."""
        while not self._has_all and self._process.has_written:
            self._receive()
        return self._has_all or time.monotonic() > self._deadline

    def finish(self) -> tuple[WorkerProcess, TargetFacts]:
        """Wait for the process, and for what the target says of itself.

        Raises `TargetUnavailable`; the process has ended then.
        """
        try:
            while not self._has_all:
                self._receive()
            return self._process, self._facts()
        except BaseException:
            self._process.kill()
            raise

    def abandon(self) -> None:
        """Wait no longer: the process ends."""
        self._process.kill()

    @property
    def _has_all(self) -> bool:
        return self._failure is not None or len(self._answers) == len(self._start.requests)

    def _receive(self) -> None:
        try:
            self._answers.append(self._process.receive(self._deadline).header)
        except FAILURES as failure:
            self._failure = failure

    def _facts(self) -> TargetFacts:
        start = self._start
        for answer in self._answers:
            if answer["status"] != "ok":
                raise TargetUnavailable.from_header({**answer, "hint": answer["hint"] or start.hint_on_memory})
        if self._failure is None:
            return TargetFacts.from_headers(*self._answers)
        kind: FailureKind = "broken" if self._answers else "interpreter"
        what = f"{start.target} does not start" if self._answers else f"{start.python} cannot run a target"
        sentence, printed = self._process.end(self._failure, start.timeout)
        last = f" ({printed.splitlines()[-1]})" if printed else ""
        hint = _HINT_ON_TIME if isinstance(self._failure, TimeoutError) else start.hint_on_memory
        raise TargetUnavailable(kind, f"{what}: its process {sentence}{last}", hint, printed) from None


def time_to_start(timeout: float) -> float:
    """Seconds that a start may take where a case may take `timeout`.

    A start imports a library, which a case does not; but who gives a case little time waits no minutes for it.
    """
    return max(_SHORTEST, _CASES * timeout)


def allowed(memory: int) -> str:
    """What may be allocated, in words about the target."""
    return f"it may allocate {memory / 2**30:.3g} GB (--memory)"
