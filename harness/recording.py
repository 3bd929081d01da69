"""The handler that writes a run to disk as it goes."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from cases.case import Case
from harness.events import (
    CaseJudged,
    Event,
    PaddingChecked,
    Reproduced,
    RunFinished,
    RunStarted,
    Shrinking,
    Tabled,
    Timed,
)
from harness.generation import LARGE
from reports.records import Cell, Record
from reports.run import Run
from reports.store import RunWriter

KEPT_FAILURES: Final = 8
"""Failing cases kept of each cell while the run goes; its witness is kept in any case."""


def fresh_folder(root: Path) -> Path:
    """A name for a run that sorts by time and is not taken."""
    return root / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class Recorder:
    """Writes events into the folder of a run."""

    def __init__(self, writer: RunWriter, fresh: bool) -> None:
        self.path = writer.path
        self._writer = writer
        self._fresh = fresh
        self._started = False
        self._kept: Counter[Cell] = Counter()

    @classmethod
    def start(cls, path: Path, facts: Mapping[str, Any]) -> Self:
        """Make the folder, with `facts` in it. Raises `RunStoreError` when it cannot be made or written."""
        return cls(RunWriter.create(path, facts), fresh=True)

    @classmethod
    def resume(cls, run: Run) -> Self:
        """Go on with a run that was cut short."""
        return cls(RunWriter.resume(run.path, run.facts, len(run.rows)), fresh=False)

    def __call__(self, event: Event) -> None:
        """Write what an event says, but for what is on disk already."""
        match event:
            case RunStarted(targets=targets):
                self._started = True
                self._writer.describe({"targets": targets})
            case CaseJudged(record=record, case=case):
                self._keep(record, case)
                if not event.stored:
                    self._writer.add(record, event.seconds)
            case PaddingChecked(record=record, case=case) if record is not None:
                self._writer.save_case(case)
                if not event.stored:
                    self._writer.add(record, 0.0)
            case Shrinking():
                self._writer.flush()
            case Reproduced(name=name, script=script):
                self._writer.save_reproducer(name, script)
            case Tabled(name=name, table=table):
                self._writer.save_tokens(name, table)
            case Timed(timings=timings):
                self._writer.save_timings(timings.as_facts())
            case RunFinished(facts=facts, complete=complete, witnesses=witnesses):
                for case in witnesses:
                    self._writer.save_case(case)
                self._writer.finish(facts, complete)

    def _keep(self, record: Record, case: Case) -> None:
        """Save a case that fails: before its record, which without it could not be resumed from.

        Of large ones, only what they were shrunk to is saved, and a witness.
        """
        if record.phase == "shrunk":
            self._writer.save_case(case)
        elif record.verdict.fails and record.phase != LARGE and self._kept[record.cell] < KEPT_FAILURES:
            self._kept[record.cell] += 1
            self._writer.save_case(case)

    def discard(self) -> None:
        """Take the folder of a new run back, if nothing was judged in it."""
        if self._fresh and not self._started:
            self._writer.discard()
