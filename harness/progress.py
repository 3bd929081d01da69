"""The handler that shows a run as it goes: a bar on a terminal, a quiet line now and then elsewhere."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.events import CaseJudged, Event, Handler, PaddingChecked, RunFinished, RunStarted, Shrinking

QUIET_SECONDS: Final = 15.0


class ProgressBar:
    """A bar with cases per second, time left and the count of failures."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failures]}"),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("judging", total=None, failures="", speed="")
        self._failures = 0

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(questions=questions):
                self._progress.update(self._task, total=questions)
                self._progress.start()
            case CaseJudged(record=record):
                self._failures += record.verdict.fails
                words = f"[red]{self._failures} failing" if self._failures else ""
                speed = self._progress.tasks[0].speed
                self._progress.update(
                    self._task, advance=1, failures=words, speed=f"{speed:.0f}/s" if speed else ""
                )
            case Shrinking(cell=cell):
                self._progress.update(self._task, description=f"shrinking {cell.loss_type} {cell.dtype}")
            case PaddingChecked(cell=cell):
                self._progress.update(self._task, description=f"padding {cell.loss_type} {cell.dtype}")
            case RunFinished():
                self._progress.stop()


class ProgressLines:
    """One plain line every quarter of a minute, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._questions = self._judged = self._failures = 0
        self._said = time.monotonic()

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(questions=questions):
                self._questions = questions
                self._say(f"judging {questions:,} cases")
            case CaseJudged(record=record):
                self._judged += 1
                self._failures += record.verdict.fails
                if time.monotonic() - self._said >= QUIET_SECONDS:
                    self._say(f"{self._judged:,} of {self._questions:,} cases, {self._failures:,} failing")
            case Shrinking() | PaddingChecked() | RunFinished():
                pass

    def _say(self, line: str) -> None:
        self._said = time.monotonic()
        self._console.print(line, highlight=False)


def on_stderr() -> Handler:
    """Progress as a bar on a terminal, as plain lines elsewhere."""
    console = Console(stderr=True)
    return ProgressBar(console) if console.is_terminal else ProgressLines(console)
