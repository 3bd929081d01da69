"""The columns of a run's row files: names, types and what they mean.

The schema is a contract: whoever reads the files without lossgate finds each column's description in the
field's metadata, and the version in the schema's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from reports.records import Cell, Divergence, Record, Verdict

SCHEMA_VERSION: Final = 1
VERSION_KEY: Final = b"lossgate_schema_version"

CELL_COLUMNS: Final = tuple(field.name for field in fields(Cell))
MEASURES: Final = tuple(field.name for field in fields(Divergence))
NULLABLE: Final = ("gradient_row", "gradient_column", "bits_equal")


def _field(name: str, kind: Any, description: str) -> Any:
    return pa.field(name, kind, nullable=name in NULLABLE, metadata={"description": description})


def _schema(columns: list[Any]) -> Any:
    return pa.schema(columns, metadata={VERSION_KEY: str(SCHEMA_VERSION)})


_CELL: Final = [
    _field("target", pa.string(), "implementation under test, as it is shown: name and version"),
    _field("surface", pa.string(), "where the target takes its input and where the gradient is judged"),
    _field("loss_type", pa.string(), "name of the loss"),
    _field("level", pa.string(), "importance-sampling level: token or sequence"),
    _field("beta", pa.float64(), "coefficient of the KL term"),
    _field("dtype", pa.string(), "dtype of every float tensor of the case"),
    _field("device", pa.string(), "device the target computed on"),
]

_CASE_ID: Final = _field(
    "case_id", pa.string(), "hash of the case's content; if it is kept, its file is cases/<case_id>.json"
)

ROWS: Final = _schema(
    [
        *_CELL,
        _CASE_ID,
        _field("description", pa.int64(), "running number, in the run, of the description behind the case"),
        _field("phase", pa.string(), "its origin: corpus, regions, drawn, large, padding; shrunk from a failure"),
        _field("rows", pa.int64(), "B: completions in the batch"),
        _field("columns", pa.int64(), "T: positions of a completion"),
        _field("tokens", pa.int64(), "unmasked tokens of the batch"),
        _field(
            "regions",
            pa.list_(pa.field("item", pa.string(), nullable=False)),
            "names of the regions of input space the case lies in",
        ),
        _field("verdict", pa.string(), f"how the case ended: {', '.join(Verdict)}"),
        _field("loss_absolute", pa.float64(), "error of the loss; NaN where nothing was compared"),
        _field("loss_ulps", pa.float64(), "the same, in ulps of the dtype at the exact value"),
        _field("loss_ratio", pa.float64(), "the same, as error / bound: above 1, rounding cannot explain it"),
        _field("gradient_absolute", pa.float64(), "error of the gradient element with the largest ratio"),
        _field("gradient_ulps", pa.float64(), "the same, in ulps of the dtype at the exact value"),
        _field("gradient_ratio", pa.float64(), "the same, as error / bound"),
        _field("gradient_row", pa.int64(), "completion of that element, from 0"),
        _field("gradient_column", pa.int64(), "position of that element, from 0"),
        _field("message", pa.string(), "what happened in words; empty if the case conforms"),
        _field("repeated", pa.bool_(), "whether the case was asked twice"),
        _field("bits_equal", pa.bool_(), "whether both answers have the same bits; null if not repeated"),
    ]
)
"""One row per case and cell, `rows/part-*.parquet`."""

TIMINGS: Final = _schema(
    [_CASE_ID, *_CELL, _field("seconds", pa.float64(), "time from the question to the answer, in seconds")]
)
"""How long each row took, `timings/part-*.parquet`: kept apart, because rows do not differ between runs."""


def to_row(record: Record) -> dict[str, Any]:
    """The record as one flat row of `ROWS`."""
    # Not `asdict`, which copies: this is done for every case.
    row = vars(record) | vars(record.cell)
    for quantity in ("loss", "gradient"):
        row |= {f"{quantity}_{measure}": value for measure, value in vars(row[quantity]).items()}
    row["verdict"] = record.verdict.value
    return {name: _storable(row[name]) for name in ROWS.names}


def from_row(row: Mapping[str, Any]) -> Record:
    """Read what `to_row` wrote; nulls may be None, NaN or pandas' NA."""
    return Record(
        cell=Cell(**{name: row[name] for name in CELL_COLUMNS}),
        case_id=row["case_id"],
        description=int(row["description"]),
        phase=row["phase"],
        rows=int(row["rows"]),
        columns=int(row["columns"]),
        tokens=int(row["tokens"]),
        regions=tuple(row["regions"]),
        verdict=Verdict(row["verdict"]),
        loss=Divergence(**{measure: float(row[f"loss_{measure}"]) for measure in MEASURES}),
        gradient=Divergence(**{measure: float(row[f"gradient_{measure}"]) for measure in MEASURES}),
        gradient_row=None if pd.isna(row["gradient_row"]) else int(row["gradient_row"]),
        gradient_column=None if pd.isna(row["gradient_column"]) else int(row["gradient_column"]),
        message=row["message"],
        repeated=bool(row["repeated"]),
        bits_equal=None if pd.isna(row["bits_equal"]) else bool(row["bits_equal"]),
    )


def to_timing(record: Record, seconds: float) -> dict[str, Any]:
    """One row of `TIMINGS`."""
    row = {"case_id": record.case_id, **vars(record.cell), "seconds": seconds}
    return {name: _storable(row[name]) for name in TIMINGS.names}


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        # What a target printed, or a file name, may hold bytes that are no UTF-8; Arrow would refuse the row.
        return value.encode("utf-8", "backslashreplace").decode()
    return value


def documented(schema: Any = ROWS) -> str:
    """A schema as a Markdown table: column, type, may be null, meaning."""
    lines = [
        f"Version {schema.metadata[VERSION_KEY].decode()}.",
        "",
        "| column | type | null | meaning |",
        "|---|---|---|---|",
    ]
    for field in schema:
        kind = "list of string" if pa.types.is_list(field.type) else str(field.type)
        meaning = field.metadata[b"description"].decode()
        lines.append(f"| `{field.name}` | {kind} | {'yes' if field.nullable else 'no'} | {meaning} |")
    return "\n".join(lines) + "\n"
