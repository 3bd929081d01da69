from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import astuple

import hypothesis.strategies as st
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

from reports.records import Cell, Divergence, Record, Verdict
from reports.schema import ROWS, SCHEMA_VERSION, TIMINGS, documented, from_row, to_row

texts = st.text(max_size=8)
counts = st.integers(0, 2**40)
divergences = st.builds(Divergence, st.floats(), st.floats(), st.floats())
records = st.builds(
    Record,
    cell=st.builds(Cell, texts, texts, texts, texts, st.floats(), texts, texts),
    case_id=texts,
    description=counts,
    phase=st.sampled_from(["corpus", "regions", "drawn"]),
    rows=counts,
    columns=counts,
    tokens=counts,
    regions=st.lists(texts, max_size=3).map(tuple),
    verdict=st.sampled_from(Verdict),
    loss=divergences,
    gradient=divergences,
    gradient_row=st.none() | counts,
    gradient_column=st.none() | counts,
    message=texts,
    repeated=st.booleans(),
    bits_equal=st.none() | st.booleans(),
)


def bits(value: object) -> object:
    """Equal only for floats of the same bits, NaN and -0.0 included."""
    if isinstance(value, tuple):
        return tuple(bits(part) for part in value)
    return struct.pack("<d", value) if isinstance(value, float) else (type(value), value)


@given(records)
def test_a_record_round_trips_through_its_row(record: Record) -> None:
    """Nothing of a record is lost in the columns, to the last bit."""
    table = pa.Table.from_pylist([to_row(record)], schema=ROWS)
    assert bits(astuple(from_row(table.to_pylist()[0]))) == bits(astuple(record))


def test_nulls_of_pandas_are_read(record: Callable[..., Record]) -> None:
    """Rows out of a frame hold NaN or NA where a record holds None."""
    for null in (None, math.nan, pd.NA):
        row = to_row(record()) | {"gradient_row": null, "gradient_column": null, "bits_equal": null}
        read = from_row(row)
        assert (read.gradient_row, read.gradient_column, read.bits_equal) == (None, None, None)


@pytest.mark.parametrize("schema", [ROWS, TIMINGS])
def test_every_column_is_described(schema: pa.Schema) -> None:
    """Readers without lossgate find the meaning of each column, and the version, in the file itself."""
    assert schema.metadata[b"lossgate_schema_version"] == str(SCHEMA_VERSION).encode()
    assert all(field.metadata[b"description"] for field in schema)


def test_documentation_lists_every_column() -> None:
    """docs/schema.md is a well-formed table with a line a column."""
    lines = documented().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(ROWS)
    assert {line.count("|") for line in table} == {5}
    assert "| `regions` | list of string | no |" in documented()
    assert "| `bits_equal` | bool | yes |" in documented()
