"""Progress of a parity check: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from harness.parity.session import Tick

QUIET_SECONDS: Final = 15.0


@contextmanager
def on_stderr(quiet: bool) -> Iterator[Tick]:
    """What is to be called as questions are answered, from any thread."""
    console = Console(stderr=True)
    if quiet:
        yield lambda _count: None
    elif console.is_terminal:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description} {task.completed:,.0f} cases"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task("answered")
            yield lambda count: progress.advance(task, count)
    else:
        yield _Lines(console)


class _Lines:
    """A line every quarter of a minute."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._answered = 0
        self._said = time.monotonic()

    def __call__(self, count: int) -> None:
        with self._lock:
            self._answered += count
            if time.monotonic() - self._said >= QUIET_SECONDS:
                self._said = time.monotonic()
                self._console.print(f"{self._answered:,} cases answered", highlight=False)
