from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import pytest

from reports.records import Divergence, Record, Verdict
from reports.table import TABLE_COLUMNS, cell_table, summary

MakeRecord = Callable[..., Record]
RowsOf = Callable[[Iterable[Record]], pd.DataFrame]


def cells(table: pd.DataFrame) -> list[tuple[object, ...]]:
    columns = ["target", "loss_type", "level", "beta", "dtype"]
    return list(table[columns].itertuples(index=False, name=None))


def test_cells_stand_in_the_order_of_first_appearance(record: MakeRecord, rows_of: RowsOf) -> None:
    """Target first, then loss, level, beta, dtype, however the cases were interleaved."""
    records = [
        record(target=target, dtype=dtype, beta=beta, loss_type=loss_type)
        for dtype in ("float64", "float32")
        for target in ("verl", "trl")
        for beta in (0.04, 0.0)
        for loss_type in ("grpo", "bnpo")
    ]
    assert cells(cell_table(rows_of(records))) == [
        (target, loss_type, "token", beta, dtype)
        for target in ("verl", "trl")
        for loss_type in ("grpo", "bnpo")
        for beta in (0.04, 0.0)
        for dtype in ("float64", "float32")
    ]


def test_cases_are_counted_by_verdict(record: MakeRecord, rows_of: RowsOf) -> None:
    """A case met again in another phase is one case; the cell takes the worst verdict."""
    table = cell_table(
        rows_of(
            [
                record(case_id="a", phase="regions"),
                record(case_id="a", phase="drawn"),
                record(case_id="b", verdict=Verdict.OVERFLOW),
                record(case_id="c", verdict=Verdict.UNSUPPORTED),
                record(case_id="d", verdict=Verdict.ERROR),
                record(case_id="a", dtype="float64"),
            ]
        )
    )
    first, second = table.to_dict("records")
    assert first["cases"] == 4
    assert {v: first[v] for v in Verdict if first[v]} == {
        "conforms": 1,
        "overflow": 1,
        "unsupported": 1,
        "error": 1,
    }
    assert first["verdict"] == "error"
    assert (second["cases"], second["conforms"], second["verdict"]) == (1, 1, "conforms")


def test_the_largest_divergence_is_shown_with_its_own_numbers(record: MakeRecord, rows_of: RowsOf) -> None:
    """Loss and gradient each come from one record: the one with the largest ratio, not the largest error."""
    table = cell_table(
        rows_of(
            [
                record(case_id="a", loss=Divergence(9.0, 9.0, 0.1), gradient=Divergence(1.0, 2.0, 0.9)),
                record(case_id="b", loss=Divergence(1e-9, 0.1, 0.4), gradient=Divergence(5.0, 5.0, 0.2)),
            ]
        )
    )
    (cell,) = table.to_dict("records")
    assert [cell[f"loss_{m}"] for m in ("absolute", "ulps", "ratio")] == [1e-9, 0.1, 0.4]
    assert [cell[f"gradient_{m}"] for m in ("absolute", "ulps", "ratio")] == [1.0, 2.0, 0.9]
    assert cell["witness"] == "a"


def test_only_judged_answers_are_compared(record: MakeRecord, rows_of: RowsOf) -> None:
    """A nondeterministic answer's distance and a missing number do not enter; infinity does."""
    table = cell_table(
        rows_of(
            [
                record(dtype="a", verdict=Verdict.NONDETERMINISTIC, loss=Divergence(7.0, 7.0, 7.0)),
                record(dtype="a", loss=Divergence(math.nan, math.nan, math.nan)),
                record(dtype="a", loss=Divergence(0.5, 0.5, 0.5)),
                record(dtype="b", verdict=Verdict.CRASH),
                record(dtype="c", loss=Divergence(0.5, 0.5, 0.5)),
                record(dtype="c", verdict=Verdict.DIVERGES, loss=Divergence(math.inf, math.inf, math.inf)),
            ]
        )
    )
    np.testing.assert_array_equal(table["loss_ratio"], [0.5, math.nan, math.inf])


def test_the_witness_shows_the_verdict_of_its_cell(record: MakeRecord, rows_of: RowsOf) -> None:
    """Among the cases with the worst verdict it has the largest of the two ratios; the first of equals."""
    diverges, far = Verdict.DIVERGES, Divergence(1.0, 1.0, 50.0)
    table = cell_table(
        rows_of(
            [
                record(dtype="a", case_id="no", loss=far),
                record(dtype="a", case_id="near", verdict=diverges, loss=Divergence(1.0, 1.0, 2.0)),
                record(dtype="a", case_id="far", verdict=diverges, gradient=far, message="gradient x 50"),
                record(dtype="a", case_id="as far", verdict=diverges, loss=far),
                record(dtype="b", case_id="ok"),
                record(dtype="b", case_id="first", verdict=Verdict.ERROR, message="raised"),
                record(dtype="b", case_id="second", verdict=Verdict.ERROR, message="raised again"),
                record(dtype="c", case_id="refused", verdict=Verdict.UNSUPPORTED, message="no such loss"),
            ]
        )
    )
    assert table[["witness", "message"]].to_numpy().tolist() == [
        ["far", "gradient x 50"],
        ["first", "raised"],
        ["refused", "no such loss"],
    ]


def test_the_usual_reason_for_a_refusal_is_told(record: MakeRecord, rows_of: RowsOf) -> None:
    """Of an unsupported cell the table shows the reason that most cases were refused for, not the first one's."""
    reasons = ("a split", "no float64", "no float64")
    records = [
        record(case_id=f"{number}", verdict=Verdict.UNSUPPORTED, message=reason)
        for number, reason in enumerate(reasons)
    ]
    assert list(cell_table(rows_of(records))["message"]) == ["no float64"]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([True, True, None], "all"),
        ([True, False], "some"),
        ([False, None], "none"),
        ([None, None], "-"),
    ],
)
def test_bits_are_judged_over_the_repeated_cases(
    record: MakeRecord, rows_of: RowsOf, answers: list[bool | None], said: str
) -> None:
    """Cases that were not repeated say nothing about determinism."""
    records = [record(repeated=bits is not None, bits_equal=bits) for bits in answers]
    assert cell_table(rows_of(records))["bits_equal"].tolist() == [said]


def test_no_rows_give_an_empty_table(rows_of: RowsOf) -> None:
    """A run without rows has a table with columns and nothing in it."""
    table = cell_table(rows_of([]))
    assert list(table.columns) == list(TABLE_COLUMNS)
    assert table.empty
    assert summary(table) == []


def test_a_target_that_conforms_is_summed_up(record: MakeRecord, rows_of: RowsOf) -> None:
    """Cells and judged cases, with thousands marked."""
    records = [record(dtype=dtype, case_id=f"{number}") for dtype in ("a", "b") for number in range(600)]
    (target,) = summary(cell_table(rows_of(records)))
    assert target.target == "trl 1.16.0"
    assert target.cells == {Verdict.CONFORMS: 2}
    assert target.cases == 1200
    assert target.verdict is Verdict.CONFORMS
    assert target.sentence == "trl 1.16.0: 2 cells, 1,200 cases: all conform"


def test_targets_that_fail_are_summed_up(record: MakeRecord, rows_of: RowsOf) -> None:
    """Conforming cells first, then worst first, loud where a gate stops; refused cases were not judged."""
    records = [
        record(dtype="a"),
        record(dtype="b"),
        record(dtype="c", verdict=Verdict.OVERFLOW),
        record(dtype="d", verdict=Verdict.UNSUPPORTED),
        record(dtype="e", verdict=Verdict.CRASH),
        record(dtype="f", verdict=Verdict.DIVERGES),
        record(dtype="f", verdict=Verdict.UNSUPPORTED, case_id="other"),
        record(target="verl", verdict=Verdict.UNSUPPORTED),
        record(target="liger", dtype="a", verdict=Verdict.DIVERGES),
        record(target="liger", dtype="b", verdict=Verdict.DIVERGES),
    ]
    assert [target.sentence for target in summary(cell_table(rows_of(records)))] == [
        "trl 1.16.0: 6 cells, 5 cases: 2 conform, 1 DIVERGES, 1 CRASH, 1 overflow, 1 unsupported",
        "verl: 1 cell, 0 cases: unsupported",
        "liger: 2 cells, 2 cases: all DIVERGE",
    ]
