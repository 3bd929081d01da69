"""The handler that writes a run to disk as it goes."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from harness.events import CaseJudged, Event, PaddingChecked, RunFinished, RunStarted, Shrinking
from reports.records import Cell
from reports.store import RunWriter

KEPT_FAILURES: Final = 8
"""Failing cases kept of each cell while the run goes; its witness is kept in any case."""


def fresh_folder(root: Path) -> Path:
    """A name for a run that sorts by time and is not taken."""
    return root / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


class Recorder:
    """Writes events into the folder of a run, which is made, with `facts` in it, before any target starts.

    Raises `RunStoreError` when the folder cannot be made or written.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.path = path
        self._writer = RunWriter.create(path, facts)
        self._kept: Counter[Cell] = Counter()

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(targets=targets):
                self._writer.describe({"targets": targets})
            case CaseJudged(record=record, case=case, seconds=seconds):
                self._writer.add(record, seconds)
                if record.verdict.fails and self._kept[record.cell] < KEPT_FAILURES:
                    self._kept[record.cell] += 1
                    self._writer.save_case(case)
            case PaddingChecked(record=record, case=case) if record is not None:
                self._writer.add(record, 0.0)
                self._writer.save_case(case)
            case Shrinking():
                self._writer.flush()
            case RunFinished(facts=facts, complete=complete, witnesses=witnesses):
                for case in witnesses:
                    self._writer.save_case(case)
                self._writer.finish(facts, complete)

    def discard(self) -> None:
        """Take the folder back: nothing was judged."""
        self._writer.discard()
