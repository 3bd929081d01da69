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

from . import limits, protocol


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
    connection = _Connection(read_fd, write_fd)
    hello = connection.receive()
    limits.restrict(hello.header["memory"])
    connection.send(_hello(hello))
    # Only now: the modules below import torch, and the answer to hello says whether it is there.
    from .service import Service

    service = Service()
    while True:
        request = connection.receive()
        if request.header["request"] == "close":
            os._exit(0)
        connection.send(service.answer(request))


class _Connection:
    """Messages from and to the parent; the process ends where there is none any more."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._left_over = bytearray()
        self._owner = os.getpid()

    def receive(self) -> protocol.Message:
        try:
            message = protocol.read_message(lambda size: os.read(self._read_fd, size), self._left_over)
        except OSError:
            os._exit(protocol.EXIT_DISCONNECTED)
        if message is None:
            _die()
        return message

    def send(self, data: bytes) -> None:
        if os.getpid() != self._owner:
            # A child that the target forked and that came back out of it: this is not its answer to give.
            os._exit(1)
        try:
            written = os.write(self._write_fd, data)
            if written < len(data):
                protocol.write_all(lambda part: os.write(self._write_fd, part), data[written:])
        except OSError:
            os._exit(protocol.EXIT_DISCONNECTED)


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent: a target may hold the interpreter's lock for ever."""
    # Only Linux can; elsewhere a thread watches the parent's pipe, which is enough for all but such targets.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_PR_SET_PDEATHSIG = 1


def _hello(request: protocol.Message) -> bytes:
    version = platform.python_version()
    try:
        import torch
    # Not only ImportError: a broken installation raises OSError or RuntimeError.
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        reason = limits.exceeded(error) or f"{type(error).__name__}: {error}"
        message = "has no torch" if missing else f"cannot import torch ({reason})"
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
