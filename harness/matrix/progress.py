"""How far a matrix is: a bar on a terminal, a plain line a release elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.matrix.matrix import Seen
from reports.columns import Column


@contextmanager
def shown(quiet: bool) -> Iterator[Seen]:
    """What takes every release as it comes, and shows nothing where `quiet`."""
    console = Console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        yield lambda column, done, of: console.print(f"{done} of {of}: {_words(column)}", highlight=False)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(TextColumn("{task.description}"), *columns, console=console, transient=True) as progress:
        task = progress.add_task("releases", total=None)

        def advance(column: Column, done: int, of: int) -> None:
            progress.update(task, total=of, completed=done, description=_words(column))

        yield advance


def _words(column: Column) -> str:
    if column.why_not:
        return f"{column.name} not judged"
    failing = sum(one.verdict.fails for one in column.results)
    return f"{column.name}, {len(column.results)} cells, {failing} failing"
