"""A large batch is a cell's witness only where there is no other: it cannot be read, and takes room."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FLOAT32
from cases.spec import LossSpec, LossType
from harness.events import CaseJudged
from harness.tally import Tally
from reports.records import Cell, Divergence, Record, Verdict
from reports.schema import to_row
from reports.table import cell_table

CELL = Cell("t", "logps", "grpo", "token", 0.0, "float32", "cpu")


def judged(phase: str, ratio: float) -> CaseJudged:
    """A case that conforms, with its largest error / bound."""
    one = np.array([[-1.0 - ratio]])
    case = Case(Batch(FLOAT32, FLOAT32.round(one), None, None, np.ones(1), one < 0), LossSpec(LossType.GRPO))
    error = Divergence(1e-9, 0.1, ratio)
    record = Record(
        CELL,
        case.id,
        0,
        phase,
        1,
        1,
        1,
        (),
        Verdict.CONFORMS,
        error,
        error,
        0,
        0,
        "",
        repeated=False,
        bits_equal=None,
    )
    return CaseJudged(record, case, 0.0)


@pytest.mark.parametrize(
    ("phases", "witness"),
    [(["drawn", "large"], 0), (["large", "drawn", "regions"], 2), (["large", "large"], 1)],
    ids=["behind", "before", "alone"],
)
def test_what_can_be_read_is_preferred(phases: list[str], witness: int) -> None:
    """Although the error / bound of the large ones is larger; what is kept is what the table names."""
    ratios = [
        0.5 + 0.01 * number if phase == "large" else 0.1 + 0.01 * number for number, phase in enumerate(phases)
    ]
    cases = [judged(phase, ratio) for phase, ratio in zip(phases, ratios, strict=True)]
    tally = Tally(["t"])
    for one in cases:
        tally.add(one)
    table = cell_table(pd.DataFrame([to_row(one.record) for one in cases]))
    assert tally.witnesses == (cases[witness].case,)
    assert list(table["witness"]) == [cases[witness].record.case_id]
    assert table["loss_ratio"][0] == max(ratios), "the largest error is shown all the same"
