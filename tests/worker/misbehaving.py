"""A target that does what no loss should, as the case asks it to; on any other case it is healthy."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

GB = 2**30


def healthy(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return -(logps * advantages[:, None] * mask).sum()


def draws(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return healthy(logps, advantages, mask) * torch.rand(())


def reseeds(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    torch.manual_seed(123)
    return draws(logps, advantages, mask)


def allocates_30_gb(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return healthy(logps, advantages, mask) + torch.empty(30 * GB // 4).fill_(1)[0]


def allocates_30_gb_of_bytes(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    return healthy(logps, advantages, mask) * len(bytearray(30 * GB))


def fills_memory(*_: Tensor) -> NoReturn:
    """To the last byte: with pieces of every size, which are all still held when it gives up."""
    # In its list nothing more is allocated than the pieces.
    held: list[bytes | None] = [None] * 2**20
    free = iter(range(len(held)))
    for size in (2**24, 2**20, 2**16, 2**12, *range(512, 0, -8)):
        with contextlib.suppress(MemoryError):
            while True:
                held[next(free)] = bytes(size)
    raise MemoryError


def allocates_in_cpp(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    # operator new, whose exception nothing here catches.
    ctypes.CDLL("libstdc++.so.6")._Znwm(ctypes.c_size_t(30 * GB))
    return healthy(logps, advantages, mask)


def prints_endlessly(*_: Tensor) -> NoReturn:
    while True:
        print("all work and no play" * 1000)


def writes_a_huge_file(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    with open("huge", "wb") as file:
        file.truncate(2 * GB)
    return healthy(logps, advantages, mask)


def loops_in_c(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    # Hours of backtracking in which no other thread gets the interpreter's lock.
    re.match(r"(a+)+$", "a" * 60 + "b")
    return healthy(logps, advantages, mask)


def ignores_signals(*_: Tensor) -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)


def segfaults(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    ctypes.string_at(0)
    return healthy(logps, advantages, mask)


def writes_to_every_file(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    for fd in range(3, 256):
        with contextlib.suppress(OSError):
            os.write(fd, b"a progress bar that found the wrong file")
    return healthy(logps, advantages, mask)


def closes_every_file(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    os.closerange(0, 256)
    return healthy(logps, advantages, mask)


def comes_back_twice(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    if os.fork() == 0:
        return 2 * healthy(logps, advantages, mask)
    return healthy(logps, advantages, mask)


def forks(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    _leave(os.fork())
    return healthy(logps, advantages, mask)


def daemonises(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """As a service does it: a session of its own, its parent gone, every file closed."""
    child = os.fork()
    if child == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            os.closerange(0, 256)
        _leave(grandchild)
        os._exit(0)
    os.waitpid(child, 0)
    return healthy(logps, advantages, mask)


def starts_a_service(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    _note(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
    return healthy(logps, advantages, mask)


def starts_without_environment(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """In another process group, yet in the session; without a trace of ours in its environment."""
    _note(subprocess.Popen(["/bin/sleep", "600"], env={}, preexec_fn=os.setpgrp).pid)
    return healthy(logps, advantages, mask)


def starts_a_titled_one(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """A service whose child has written over its environment, as one that shows a title of its own does."""
    source = "import subprocess as s; child = s.Popen(['sleep', '600'], env={}); print(child.pid); child.wait()"
    service = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, start_new_session=True)
    assert service.stdout is not None
    _note(int(service.stdout.readline()))
    return healthy(logps, advantages, mask)


def daemonises_and_hangs(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    daemonises(logps, advantages, mask)
    return loops_in_c(logps, advantages, mask)


def daemonises_and_leaves(logps: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    daemonises(logps, advantages, mask)
    os._exit(3)


def _leave(pid: int) -> None:
    """In the child (pid 0) outlive everything; in its parent write down which it is."""
    if pid == 0:
        time.sleep(600)
        os._exit(0)
    _note(pid)


def _note(pid: int) -> None:
    Path("child.pid").write_text(str(pid))


BEHAVIOURS: dict[str, Callable[..., Tensor]] = {
    name: value for name, value in list(globals().items()) if callable(value) and name[0].islower()
}
FIRST = 1000


def loss(
    logps: Tensor,
    advantages: Tensor,
    mask: Tensor,
    old_logps: Tensor | None,  # noqa: ARG001 # without these three, cases would be unsupported
    epsilon_low: float,  # noqa: ARG001
    epsilon_high: float,  # noqa: ARG001
    max_completion_length: int,
) -> Tensor:
    behaviours = list(BEHAVIOURS.values())
    number = max_completion_length - FIRST
    return (behaviours[number] if 0 <= number < len(behaviours) else healthy)(logps, advantages, mask)
