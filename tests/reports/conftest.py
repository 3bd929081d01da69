from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FLOAT32
from cases.spec import LossSpec, LossType
from reports.records import NOT_COMPARED, Cell, Divergence, Record, Verdict
from reports.run import Run
from reports.store import RunWriter

CONFORMING = Record(
    cell=Cell("trl 1.16.0", "logps", "grpo", "token", 0.04, "float32", "cpu"),
    case_id="000000000000",
    description=0,
    phase="drawn",
    rows=2,
    columns=3,
    tokens=5,
    regions=("inside", "full_row"),
    verdict=Verdict.CONFORMS,
    loss=Divergence(3e-8, 0.5, 0.12),
    gradient=Divergence(1e-9, 0.25, 0.5),
    gradient_row=1,
    gradient_column=2,
    message="",
    repeated=False,
    bits_equal=None,
)
_CELL = {field.name for field in fields(Cell)}


def make_record(**changes: Any) -> Record:
    """A conforming record with some fields changed, those of its cell included."""
    record = replace(CONFORMING, **{name: value for name, value in changes.items() if name not in _CELL})
    cell = replace(record.cell, **{name: value for name, value in changes.items() if name in _CELL})
    record = replace(record, cell=cell)
    if record.verdict in (Verdict.ERROR, Verdict.CRASH, Verdict.TIMEOUT, Verdict.UNSUPPORTED):
        record = replace(record, loss=NOT_COMPARED, gradient=NOT_COMPARED, gradient_row=None, gradient_column=None)
    return record


@pytest.fixture
def record() -> Callable[..., Record]:
    return make_record


@pytest.fixture
def rows_of(tmp_path: Path) -> Callable[[Iterable[Record]], pd.DataFrame]:
    """Rows as a run gives them: written and read back."""

    def written(records: Iterable[Record]) -> pd.DataFrame:
        writer = RunWriter.create(tmp_path / "rows-of", {})
        for one in records:
            writer.add(one, seconds=0.1)
        writer.finish({}, complete=True)
        return Run.load(tmp_path / "rows-of").rows

    return written


@pytest.fixture
def case() -> Case:
    batch = Batch(
        dtype=FLOAT32,
        logps=np.array([[-1.0, -0.5]]),
        old_logps=None,
        ref_logps=None,
        advantages=np.array([1.0]),
        mask=np.array([[True, False]]),
    )
    return Case(batch, LossSpec(LossType.GRPO))
