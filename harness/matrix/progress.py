"""How far a matrix is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness import progress
from harness.matrix.matrix import Seen
from reports.columns import Column


@contextmanager
def shown(quiet: bool) -> Iterator[Seen]:
    """What takes every release as it comes, and shows nothing where `quiet`."""
    with progress.shown(quiet, "releases", "judging the first") as gauge:

        def seen(column: Column, _done: int, of: int) -> None:
            gauge.expect(of)
            gauge.advance(sum(one.verdict.fails for one in column.results))
            gauge.reached(_words(column))

        yield seen


def _words(column: Column) -> str:
    if column.why_not:
        return f"{column.name} not judged"
    failing = sum(one.verdict.fails for one in column.results)
    return f"{column.name}, {len(column.results)} cells, {failing} failing"
