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

    def begin(self) -> tuple[WorkerProcess, TargetFacts]:
        """A process that has opened the target, and what the target says of itself.

        Raises `TargetUnavailable`.
        """
        try:
            if not os.path.isdir(self.cwd or "."):
                raise FileNotFoundError(f"the folder that {self.target} is to start in is gone: {self.cwd or '.'}")
            process = WorkerProcess(find_python(self.python), self.cwd, self.path)
        except OSError as error:
            # Of our own making it is a sentence; the system's own has a number and a file name.
            message = str(error) if error.errno is None else f"{self.python} cannot be started: {error}"
            raise TargetUnavailable("interpreter", message) from error
        try:
            return process, self._open(process)
        except BaseException:
            process.kill()
            raise

    def _open(self, process: WorkerProcess) -> TargetFacts:
        deadline = time.monotonic() + self.timeout

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            process.send(protocol.pack(request), deadline)
            answer = process.receive(deadline).header
            if answer["status"] != "ok":
                raise TargetUnavailable.from_header({**answer, "hint": answer["hint"] or self._hint_on_memory})
            return answer

        what = f"{self.python} cannot run a target"
        kind: FailureKind = "interpreter"
        try:
            hello = ask({"request": "hello", "protocol": protocol.PROTOCOL_VERSION, "memory": self.memory})
            what, kind = f"{self.target} does not start", "broken"
            opened = ask({"request": "open", "target": self.target, "options": self.options})
        except FAILURES as failure:
            sentence, printed = process.end(failure, self.timeout)
            last = f" ({printed.splitlines()[-1]})" if printed else ""
            hint = _HINT_ON_TIME if isinstance(failure, TimeoutError) else self._hint_on_memory
            raise TargetUnavailable(kind, f"{what}: its process {sentence}{last}", hint, printed) from None
        return TargetFacts.from_headers(hello, opened)

    @property
    def _hint_on_memory(self) -> str:
        if self.memory is None or self.memory >= _ENOUGH_MEMORY:
            return ""
        return f"{allowed(self.memory)}; to import torch and a library can take 2 GB"


def time_to_start(timeout: float) -> float:
    """Seconds that a start may take where a case may take `timeout`.

    A start imports a library, which a case does not; but who gives a case little time waits no minutes for it.
    """
    return max(_SHORTEST, _CASES * timeout)


def allowed(memory: int) -> str:
    """What may be allocated, in words about the target."""
    return f"it may allocate {memory / 2**30:.3g} GB (--memory)"
