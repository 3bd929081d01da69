"""How far a hunt is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.faults.hunt import Hunted
from harness.faults.survey import Seen

QUIET_SECONDS: Final = 15.0


@contextmanager
def shown(quiet: bool) -> Iterator[Seen]:
    """What takes every result as it comes, and shows nothing where `quiet`."""
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console, transient=True) as progress:
        task = progress.add_task("faults", total=None)

        def advance(found: Hunted, of: int) -> None:
            progress.update(task, total=of, advance=1, description=f"faults in {found.dtype}")

        yield advance


class _Lines:
    """One plain line every quarter of a minute, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen = 0
        self._said = time.monotonic()

    def __call__(self, found: Hunted, of: int) -> None:
        self._seen += 1
        if time.monotonic() - self._said >= QUIET_SECONDS:
            self._said = time.monotonic()
            line = f"{self._seen} of {of}: every fault in every dtype, now in {found.dtype}"
            self._console.print(line, highlight=False)
