"""The worker's loop: one request, one answer, until the parent closes or is gone."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import platform
import select
import signal
import sys
import threading
from typing import NoReturn

from . import protocol


def main(read_fd: int, write_fd: int) -> NoReturn:
    """Answer the requests that arrive at `read_fd` on `write_fd`."""
    # Ctrl-C is the parent's business; it ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    faulthandler.enable(all_threads=False)
    # The parent asks with this signal where a target hangs.
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    for stream in (sys.stdout, sys.stderr):
        # What a target printed before it dies must not be lost in a buffer.
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr] # files
    for fd in (read_fd, write_fd):
        os.set_inheritable(fd, False)
    threading.Thread(target=_die_with_parent, args=(read_fd,), daemon=True).start()

    def send(data: bytes) -> None:
        protocol.write_all(lambda part: os.write(write_fd, part), data)

    send(_hello(_next(read_fd)))
    # Only now: the modules below import torch, and the answer to hello says whether it is there.
    from .service import Service

    service = Service()
    while True:
        request = _next(read_fd)
        if request.header["request"] == "close":
            os._exit(0)
        send(service.answer(request))


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent: a target may hold the interpreter's lock for ever."""
    # Only Linux can; elsewhere a thread watches the parent's pipe, which is enough for all but such targets.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_PR_SET_PDEATHSIG = 1


def _next(read_fd: int) -> protocol.Message:
    message = protocol.read_message(lambda size: os.read(read_fd, size))
    if message is None:
        _die()
    return message


def _hello(request: protocol.Message) -> bytes:
    version = platform.python_version()
    try:
        import torch
    # Not only ImportError: a broken installation raises OSError or RuntimeError.
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        message = "has no torch" if missing else f"cannot import torch ({type(error).__name__}: {error})"
        return protocol.pack(
            {
                "status": "unavailable",
                "kind": "not_installed" if missing else "broken",
                "message": f"the Python at {sys.executable} ({version}) {message}",
                "hint": f"{sys.executable} -m pip install torch" if missing else "",
            }
        )
    if request.header["protocol"] != protocol.PROTOCOL_VERSION:
        raise SystemExit(f"protocol {request.header['protocol']} is not spoken here")
    return protocol.pack(
        {
            "status": "ok",
            "protocol": protocol.PROTOCOL_VERSION,
            "python": version,
            "torch": str(torch.__version__),
            "platform": platform.platform(),
            "pid": os.getpid(),
        }
    )


def _die_with_parent(read_fd: int) -> None:
    """End the process when the parent is gone, even while a target hangs."""
    poll = select.poll()
    # No event asked for: only that the other end is closed is reported.
    poll.register(read_fd, 0)
    poll.poll()
    _die()


def _die() -> NoReturn:
    if os.getpgrp() == os.getpid():
        # With everything the target may have started.
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
