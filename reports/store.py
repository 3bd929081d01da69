"""A run on disk: written as it goes, so that a run killed at any moment loses only its last seconds.

    run.json                  what the run was; its `complete` flag is set last
    rows/part-00000.parquet   one row per case and cell (`reports.schema.ROWS`)
    timings/part-00000.parquet
    cases/<case id>.json      every witness and failing case

Every file appears whole or not at all: it is written under another name, then renamed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cases.case import Case
from reports.records import Record
from reports.schema import ROWS, SCHEMA_VERSION, TIMINGS, VERSION_KEY, from_row, to_row, to_timing

FORMAT: Final = "lossgate-run/1"
OWN_FACTS: Final = ("format", "complete", "records")
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
            empty = not any(path.iterdir())
            for folder in FOLDERS if empty else ():
                (path / folder).mkdir()
        except (FileExistsError, NotADirectoryError):
            raise RunStoreError(f"{refused}: a file is in the way; give another path") from None
        except OSError as error:
            raise RunStoreError(f"{refused}: {_why(error)}; give a path that can be written") from error
        if not empty:
            raise RunStoreError(f"{refused}: the folder is not empty; give one that is new or empty")
        _write(path / "run.json", text)
        return writer

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
            name = _part(self._parts)
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

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add `facts` to run.json while the run goes."""
        self._facts |= facts
        _write(self.path / "run.json", self._described({"complete": False}))

    def discard(self) -> None:
        """Take back a run in which nothing was judged: the folder is gone unless something else is in it."""
        (self.path / "run.json").unlink(missing_ok=True)
        for folder in (*(self.path / name for name in FOLDERS), self.path):
            with contextlib.suppress(OSError):
                folder.rmdir()

    def finish(self, facts: Mapping[str, Any], complete: bool) -> None:
        """Flush, then add `facts`, the number of "records" and the `complete` flag to run.json."""
        self.flush()
        self._facts |= facts
        _write(self.path / "run.json", self._described({"complete": complete, "records": self._records}))

    def _described(self, state: dict[str, Any]) -> bytes:
        facts = {name: value for name, value in self._facts.items() if name not in OWN_FACTS}
        content = {"format": FORMAT, **state, **facts}
        return (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()


@dataclass(frozen=True, eq=False)
class Run:
    """A run read back: `facts` are run.json, `rows` the frame whose columns `reports.schema.ROWS` gives."""

    path: Path
    facts: dict[str, Any]
    rows: pd.DataFrame

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read a run, finished or not.

        Raises `RunStoreError` when `path` holds no run, or one that is damaged or of another version.
        """
        facts = _facts(path)
        table = _parts(path, "rows", ROWS)
        if facts.get("records", table.num_rows) != table.num_rows:
            raise RunStoreError(
                f"{path} lacks rows: run.json counts {facts['records']}, rows/ holds {table.num_rows}; "
                "restore the folder or run again"
            )
        return cls(path, facts, _frame(table))

    @property
    def complete(self) -> bool:
        """Whether the run came to its end: without it, cells and cases may be missing."""
        return self.facts.get("complete") is True

    def records(self) -> Iterator[Record]:
        """The rows as they were written."""
        return map(from_row, self.rows.to_dict("records"))

    def timings(self) -> pd.DataFrame:
        """Columns of `reports.schema.TIMINGS`, in the order of the rows. Raises as `load` does."""
        return _parts(self.path, "timings", TIMINGS).slice(0, len(self.rows)).to_pandas()

    def case(self, case_id: str) -> Case:
        """A stored case. Raises `RunStoreError` when there is none of this id, or its file is damaged."""
        stored = {path.stem: path for path in (self.path / "cases").glob("*.json")}
        if case_id not in stored:
            raise RunStoreError(
                f"{self.path} holds no case {case_id!r}: only witnesses and failing cases are kept; "
                "take one that its folder cases holds"
            )
        try:
            case = Case.from_json(stored[case_id].read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RunStoreError(f"cannot read {stored[case_id]}: {error}") from error
        if case.id != case_id:
            raise RunStoreError(f"{stored[case_id]} holds case {case.id}: rename the file to {case.id}.json")
        return case


def _facts(path: Path) -> dict[str, Any]:
    described = path / "run.json"
    try:
        facts = json.loads(described.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        what = "there is no run.json in it" if path.is_dir() else "there is no such folder"
        raise RunStoreError(f"{path} is not a run: {what}; give a folder that `lossgate run` wrote") from None
    except OSError as error:
        raise RunStoreError(f"cannot read {described}: {_why(error)}; make it readable") from error
    except ValueError:
        raise RunStoreError(f"{described} is empty, cut short or no JSON; restore it or run again") from None
    form = facts.get("format") if isinstance(facts, dict) else None
    if form != FORMAT:
        raise RunStoreError(
            f"{described} is of format {form!r}, this lossgate reads {FORMAT!r}; "
            "give a folder that `lossgate run` of this version wrote"
        )
    return dict(facts)


def _part(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _parts(path: Path, folder: str, schema: Any) -> Any:
    tables = [schema.empty_table()]
    for number, part in enumerate(sorted((path / folder).glob("part-*.parquet"))):
        if part.name != _part(number):
            raise RunStoreError(f"{path / folder / _part(number)} is missing; restore it or run again")
        try:
            # From memory: given a path, Arrow would read `seed=3/` in it as a column.
            table = pq.ParquetFile(pa.BufferReader(part.read_bytes())).read()
        except (OSError, pa.ArrowException) as error:
            raise RunStoreError(f"cannot read {part}: {error}; restore it or run again") from error
        version = (table.schema.metadata or {}).get(VERSION_KEY, b"none").decode()
        if version != str(SCHEMA_VERSION) or not table.schema.equals(schema):
            raise RunStoreError(
                f"{part} has other columns: its schema version is {version}, "
                f"this lossgate reads {SCHEMA_VERSION}; read it with the version that wrote it"
            )
        tables.append(table)
    return pa.concat_tables(tables)


def _frame(table: Any) -> pd.DataFrame:
    frame = table.to_pandas(integer_object_nulls=True)
    frame["regions"] = pd.Series([tuple(regions) for regions in frame["regions"]], dtype=object)
    # pandas' own integers and booleans have no null.
    return frame.astype({"gradient_row": "Int64", "gradient_column": "Int64", "bits_equal": "boolean"})


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
            f"cannot write {path}: {_why(error)}; what was written before is kept, "
            "make room or make the folder writable"
        ) from error


def _why(error: OSError) -> str:
    return error.strerror or str(error)
