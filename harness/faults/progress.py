"""How far a hunt is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness import progress
from harness.faults.hunt import Hunted
from harness.faults.survey import Seen


@contextmanager
def shown(quiet: bool) -> Iterator[Seen]:
    """What takes every result as it comes, and shows nothing where `quiet`."""
    with progress.shown(quiet, "faults and dtypes", "starting") as gauge:

        def seen(found: Hunted, of: int) -> None:
            gauge.expect(of)
            gauge.doing(f"faults in {found.dtype}")
            gauge.advance(int(found.fate.fails))

        yield seen
