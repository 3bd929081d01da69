"""What a target leaves running: found by a mark in its environment, wherever it went, and ended.

Processes are found where the system shows them and their environments, on Linux; elsewhere none is.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import cache
from typing import Final, NamedTuple

VARIABLE: Final = "LOSSGATE_MARK"

_LONGEST: Final = 2.0
_PAUSE: Final = 0.002


def new_mark() -> str:
    """The value that `VARIABLE` has in the environment of one process and of all that it starts.

    From the first call on, a guard ends what has a mark of this process when this process has ended, be it killed.
    """
    return _own_mark() + os.urandom(8).hex()


def end_marked(mark: str, leader: int | None = None) -> None:
    """Kill every process whose mark begins so, those of the session that `leader` leads, and the children of both.

    What was started with another environment, in a session of its own, by a process that is gone is not found.
    """
    deadline = time.monotonic() + _LONGEST
    while found := _found(mark, leader):
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return
        # They may be starting others at this moment.
        time.sleep(_PAUSE)


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int


def _found(mark: str, leader: int | None) -> set[int]:
    looked_for = f"{VARIABLE}={mark}".encode()
    found: set[int] = set()
    others = []
    for process in _running():
        if process.session == leader or looked_for in _read(process.pid, "environ"):
            found.add(process.pid)
        else:
            others.append(process)
    before = -1
    while len(found) != before:
        before = len(found)
        # A program may write over its environment, to show a title of its own.
        found.update(process.pid for process in others if process.parent in found)
    return found - {os.getpid()}


def _running() -> list[_Process]:
    """This user's processes, without those that have ended and are only not collected yet."""
    if sys.platform != "linux":
        return []
    running = []
    user = os.getuid()
    with os.scandir("/proc") as entries:
        for entry in entries:
            # What ends meanwhile can no longer be read.
            with contextlib.suppress(OSError, ValueError):
                if entry.name.isdigit() and entry.stat().st_uid == user:
                    state, parent, _, session = _read(int(entry.name), "stat").rpartition(b")")[2].split()[:4]
                    if state not in (b"Z", b"X"):
                        running.append(_Process(int(entry.name), int(parent), int(session)))
    return running


def _read(pid: int, file: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{file}", "rb", buffering=0) as opened:
            return opened.read()
    except OSError:
        return b""


@cache
def _own_mark() -> str:
    mark = os.urandom(8).hex()
    if sys.platform == "linux":
        # It runs this file, and sees by the end of its input that this process has ended.
        guard = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
        atexit.register(guard.communicate)
    return mark


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_marked(sys.argv[1])
