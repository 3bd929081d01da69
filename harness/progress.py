"""How far a verb is, on standard error: one line that moves on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

EVERY: Final = 15.0
"""Seconds between two lines of a log."""

_WITH_BAR: Final = 80
_WITH_SPEED: Final = 50


class Gauge(Protocol):
    """Shows how far something is: what is done of how much, how fast, until when, how much of it fails."""

    def expect(self, total: int) -> None:
        """That many there will be."""
        ...

    def doing(self, words: str) -> None:
        """What is being done now."""
        ...

    def advance(self, failing: int = 0) -> None:
        """One more is done; `failing` more of it are as they should not be."""
        ...

    def reached(self, words: str) -> None:
        """What deserves a line of a log by itself."""
        ...


@contextmanager
def shown(quiet: bool, unit: str, doing: str) -> Iterator[Gauge]:
    """A gauge of so many `unit`; it shows nothing where `quiet`, and is gone from the terminal at the end."""
    if quiet:
        yield NOTHING
    # What a log asks of colours is no reason to move a cursor in it.
    elif not sys.stderr.isatty() or os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
        yield _Lines(unit, doing)
    else:
        with _moving() as progress:
            yield _Bar(progress, doing)


class _Nothing:
    def expect(self, total: int) -> None:
        pass

    def doing(self, words: str) -> None:
        pass

    def advance(self, failing: int = 0) -> None:
        pass

    def reached(self, words: str) -> None:
        pass


NOTHING: Final[Gauge] = _Nothing()
"""Shows nothing."""


@contextmanager
def _moving() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True)
    columns: list[ProgressColumn] = [
        # Of all columns this is the one that may lose its end.
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    ]
    if console.width >= _WITH_BAR:
        columns.append(BarColumn(bar_width=20))
    columns.append(MofNCompleteColumn(table_column=Column(min_width=9, no_wrap=True)))
    if console.width >= _WITH_SPEED:
        columns.append(TextColumn("{task.fields[speed]}", table_column=Column(min_width=6, no_wrap=True)))
    columns.append(TimeRemainingColumn(table_column=Column(min_width=7, no_wrap=True)))
    columns.append(
        TextColumn("{task.fields[failing]}", style="red", table_column=Column(min_width=12, no_wrap=True))
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield progress


class _Bar:
    def __init__(self, progress: Progress, doing: str) -> None:
        self._progress = progress
        self._failing = 0
        self._task: TaskID = progress.add_task(doing, total=None, speed="", failing="")

    def expect(self, total: int) -> None:
        self._progress.update(self._task, total=total)

    def doing(self, words: str) -> None:
        self._progress.update(self._task, description=words)

    def advance(self, failing: int = 0) -> None:
        self._failing += failing
        (task,) = self._progress.tasks
        self._progress.update(
            self._task,
            advance=1,
            speed=_speed(task.speed),
            failing=f"{self._failing:,} failing" if self._failing else "",
        )

    def reached(self, words: str) -> None:
        self.doing(words)


def _speed(per_second: float | None) -> str:
    if not per_second:
        return ""
    if per_second >= 1:
        return f"{per_second:,.0f}/s"
    return f"{per_second * 60:.1f}/min"


class _Lines:
    """One plain line every quarter of a minute, none for what takes less, and one for what deserves it."""

    def __init__(self, unit: str, doing: str) -> None:
        self._unit, self._now = unit, doing
        self._done = self._total = self._failing = 0
        self._said = time.monotonic()

    def expect(self, total: int) -> None:
        self._total = total

    def doing(self, words: str) -> None:
        self._now = words

    def advance(self, failing: int = 0) -> None:
        self._done += 1
        self._failing += failing
        if time.monotonic() - self._said >= EVERY:
            of = f" of {self._total:,}" if self._total else ""
            self._say(f"{self._done:,}{of} {self._unit}, {self._failing:,} failing, now {self._now}")

    def reached(self, words: str) -> None:
        of = f" of {self._total:,}" if self._total else ""
        self._say(f"{self._done:,}{of}: {words}")

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        print(f"lossgate: {line}", file=sys.stderr, flush=True)
