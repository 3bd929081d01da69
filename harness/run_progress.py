"""The handler that shows how far a run is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from harness.events import CaseJudged, Event, Handler, PaddingChecked, RunStarted, Shrinking
from harness.progress import Gauge, shown


@contextmanager
def of_run(quiet: bool) -> Iterator[Handler]:
    """What takes every event of a run and shows how far it is; nothing where `quiet`."""
    with shown(quiet, "cases", "starting") as gauge:
        yield _OfRun(gauge)


class _OfRun:
    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._expected = self._judged = 0

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(questions=questions):
                self._expected = questions
                self._gauge.expect(questions)
            case CaseJudged(record=record):
                self._gauge.doing("judging")
                self._judged += 1
                if self._judged > self._expected:
                    # What shrinks and what is asked again was not foreseen.
                    self._gauge.expect(self._judged)
                self._gauge.advance(int(record.verdict.fails))
            case Shrinking(cell=cell):
                self._gauge.doing(f"shrinking {cell.loss_type} {cell.dtype}")
            case PaddingChecked(cell=cell):
                self._gauge.doing(f"padding {cell.loss_type} {cell.dtype}")
            case _:
                pass
