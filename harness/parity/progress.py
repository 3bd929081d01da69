"""How far a parity check is: its questions are answered in several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.parity.session import Tick
from harness.progress import shown


@contextmanager
def on_stderr(quiet: bool) -> Iterator[Tick]:
    """What is to be called as questions are answered, from any thread."""
    lock = threading.Lock()
    with shown(quiet, "cases", "answering") as gauge:

        def tick(count: int) -> None:
            with lock:
                for _ in range(count):
                    gauge.advance()

        yield tick
