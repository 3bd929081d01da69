"""A run on disk: written as it goes, so that a run killed at any moment loses only its last seconds.

    run.json                  what the run was; its `complete` flag is set last
    rows/part-00000.parquet   one row per case and cell (`reports.schema.ROWS`)
    timings/part-00000.parquet
    cases/<case id>.json      every witness and failing case
    reproducers/<case id>.py  every failing cell's witness as a script
    tokens/<case id>.json     every failing cell's witness token by token

Every file appears whole or not at all: it is written under another name, then renamed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cases.case import Case
from reports.records import Record
from reports.schema import ROWS, TIMINGS, to_row, to_timing
from reports.token_table import TokenTable

FORMAT: Final = "lossgate-run/1"
OWN_FACTS: Final = ("format", "complete", "records")
LOCK: Final = ".lock"
FOLDERS: Final = ("rows", "timings", "cases")
PART_RECORDS: Final = 512
PART_SECONDS: Final = 2.0


class RunStoreError(OSError):
    """A run cannot be written or read; the message says what, why and what to do."""


class RunWriter:
    """Writes one run into a folder of its own. Made by `create`, ended by `finish`.

    Every method raises `RunStoreError` when the folder can no longer be written.
    """

    def __init__(self, path: Path, facts: dict[str, Any], clock: Callable[[], float]) -> None:
        self.path = path
        self._facts = facts
        self._clock = clock
        self._flushed = clock()
        self._rows: list[dict[str, Any]] = []
        self._timings: list[dict[str, Any]] = []
        self._parts = 0
        self._records = 0
        self._lock: int | None = None

    @classmethod
    def create(
        cls, path: Path, facts: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
    ) -> RunWriter:
        """Start a run in `path`, which is made, with its parents, unless it is an empty folder already.

        `facts` go into run.json and must be JSON (`TypeError` or `ValueError` if not); "format", "complete"
        and "records" in them are the store's and ignored. `clock` counts seconds, to flush by.

        Raises `RunStoreError` when `path` is no folder, cannot be written or holds anything.
        """
        writer = cls(path, dict(facts), clock)
        text = writer._described({"complete": False})
        refused = f"cannot start a run in {path}"
        try:
            path.mkdir(parents=True, exist_ok=True)
            empty = not any(entry.name != LOCK for entry in path.iterdir())
            for folder in FOLDERS if empty else ():
                (path / folder).mkdir()
        except (FileExistsError, NotADirectoryError):
            raise RunStoreError(f"{refused}: a file is in the way; give another path") from None
        except OSError as error:
            raise RunStoreError(f"{refused}: {why(error)}; give a path that can be written") from error
        if not empty:
            raise RunStoreError(f"{refused}: the folder is not empty; give one that is new or empty")
        writer._take_lock()
        _write(path / "run.json", text)
        return writer

    @classmethod
    def resume(
        cls,
        path: Path,
        facts: Mapping[str, Any],
        records: int,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> RunWriter:
        """Go on writing a run that was cut short, after the `records` that its parts hold; `facts` are its own."""
        writer = cls(path, dict(facts), clock)
        writer._take_lock()
        writer._parts = len(list((path / "rows").glob("part-*.parquet")))
        writer._records = records
        return writer

    def _take_lock(self) -> None:
        """Two that write one run would damage it; the lock goes with the process that holds it."""
        try:
            self._lock = os.open(self.path / LOCK, os.O_WRONLY | os.O_CREAT, 0o666)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunStoreError(f"{self.path} is being written by another lossgate; wait for it") from None
        except OSError as error:
            raise RunStoreError(
                f"cannot lock {self.path}: {why(error)}; give a path that can be written"
            ) from error

    def add(self, record: Record, seconds: float) -> None:
        """Take one record, and how long it took.

        It is on disk once 512 records are waiting, or with the first record that comes 2 seconds after the
        last flush.
        """
        self._rows.append(to_row(record))
        self._timings.append(to_timing(record, seconds))
        if len(self._rows) >= PART_RECORDS or self._clock() - self._flushed >= PART_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the records that wait as one part."""
        if self._rows:
            name = part_name(self._parts)
            # Timings first: a part of rows is then never without its timings.
            _write(self.path / "timings" / name, _parquet(self._timings, TIMINGS))
            _write(self.path / "rows" / name, _parquet(self._rows, ROWS))
            self._parts += 1
            self._records += len(self._rows)
            self._rows, self._timings = [], []
        self._flushed = self._clock()

    def save_case(self, case: Case) -> Path:
        """Keep a case under its id; once is enough, more does no harm."""
        path = self.path / "cases" / f"{case.id}.json"
        if not path.exists():
            _write(path, case.to_json().encode())
        return path

    def save_timings(self, timings: Mapping[str, Any]) -> Path:
        """Keep where the time went, in `timings/summary.json`."""
        path = self.path / "timings" / "summary.json"
        _write(path, (json.dumps(timings, indent=1) + "\n").encode())
        return path

    def save_reproducer(self, name: str, script: str) -> Path:
        """Keep a script that shows a failing case, in place of one of the same name."""
        return self._save_beside("reproducers", name, script)

    def save_tokens(self, name: str, table: TokenTable) -> Path:
        """Keep a failing case token by token, in place of one of the same name."""
        return self._save_beside("tokens", name, table.to_json())

    def _save_beside(self, folder: str, name: str, text: str) -> Path:
        path = self.path / folder / name
        try:
            path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise RunStoreError(f"cannot make {path.parent}: {why(error)}; make the folder writable") from error
        _write(path, text.encode())
        return path

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add `facts` to run.json while the run goes."""
        self._facts |= facts
        _write(self.path / "run.json", self._described({"complete": False}))

    def discard(self) -> None:
        """Take back a run in which nothing was judged: the folder is gone unless something else is in it."""
        (self.path / "run.json").unlink(missing_ok=True)
        (self.path / LOCK).unlink(missing_ok=True)
        for folder in (*(self.path / name for name in FOLDERS), self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def finish(self, facts: Mapping[str, Any], complete: bool) -> None:
        """Flush, then add `facts`, the number of "records" and the `complete` flag to run.json."""
        self.flush()
        self._facts |= facts
        _write(self.path / "run.json", self._described({"complete": complete, "records": self._records}))
        if self._lock is not None:
            (self.path / LOCK).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _described(self, state: dict[str, Any]) -> bytes:
        facts = {name: value for name, value in self._facts.items() if name not in OWN_FACTS}
        content = {"format": FORMAT, **state, **facts}
        return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _parquet(rows: list[dict[str, Any]], schema: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    return bytes(sink.getvalue().to_pybytes())


def _write(path: Path, content: bytes) -> None:
    waiting = path.with_name(f".{path.name}.tmp")
    try:
        with waiting.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(waiting, path)
    except OSError as error:
        raise RunStoreError(
            f"cannot write {path}: {why(error)}; what was written before is kept, "
            "make room or make the folder writable"
        ) from error


def why(error: OSError) -> str:
    return error.strerror or str(error)
