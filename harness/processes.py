"""Processes that work beside this one, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Final

_LOOK_EVERY: Final = 0.2


@contextmanager
def companions(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of at most `count` processes; leaving it by an exception ends what they are at, too."""
    # Not forked: a fork of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(os.getpid(), stop))
    try:
        yield pool
    except BaseException:
        stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int, stop: Event) -> None:
    # Ctrl-C is the parent's business; it ends this process itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with, args=(parent, stop), daemon=True).start()


def _die_with(parent: int, stop: Event) -> None:
    while os.getppid() == parent and not stop.wait(_LOOK_EVERY):
        pass
    os._exit(1)
