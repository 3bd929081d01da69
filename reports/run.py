"""A run read back from disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from cases.case import Case
from reports.records import Record
from reports.schema import ROWS, SCHEMA_VERSION, TIMINGS, VERSION_KEY, from_row
from reports.store import FORMAT, RunStoreError, part_name, why


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
        raise RunStoreError(f"cannot read {described}: {why(error)}; make it readable") from error
    except ValueError:
        raise RunStoreError(f"{described} is empty, cut short or no JSON; restore it or run again") from None
    form = facts.get("format") if isinstance(facts, dict) else None
    if form != FORMAT:
        raise RunStoreError(
            f"{described} is of format {form!r}, this lossgate reads {FORMAT!r}; "
            "give a folder that `lossgate run` of this version wrote"
        )
    return dict(facts)


def _parts(path: Path, folder: str, schema: Any) -> Any:
    tables = [schema.empty_table()]
    for number, part in enumerate(sorted((path / folder).glob("part-*.parquet"))):
        if part.name != part_name(number):
            raise RunStoreError(f"{path / folder / part_name(number)} is missing; restore it or run again")
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
