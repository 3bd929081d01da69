"""Pages without a browser: size, what is called a pass, what numbers mean; comparison and matrix."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from reports.comparison import Side, compared
from reports.formats import FORMATS, ReportFormat, gate
from reports.gate import Entry
from reports.html import comparison as comparison_page
from reports.html import matrix as matrix_page
from reports.html.agreement import Agreement
from reports.html.anchors import anchors
from reports.html.charts import Histogram, Scatter
from reports.html.run import render
from reports.records import Divergence, Record, Verdict
from reports.run import Run
from reports.store import RunWriter
from reports.token_table import TokenTable
from tests.reports.gates import FAR, HOSTILE, every_verdict, facts, finding
from tests.reports.test_matrix import MATRIX, OFF

MakeRecord = Callable[..., Record]

TABLE: Final = TokenTable("B 1, T 2", {"row": ("0", "0"), "got": ("1", "nan")}, 3, ("masked: row 0",))


def written(folder: Path, records: Iterable[Record], complete: bool = True, **changes: object) -> Run:
    """A run of some records on disk, read back."""
    records = list(records)
    writer = RunWriter.create(folder, {})
    for one in records:
        writer.add(one, seconds=0.1)
        if one.verdict.fails:
            writer.save_tokens(f"{one.case_id}.json", TABLE)
            writer.save_reproducer(f"{one.case_id}.py", f"print('{one.case_id}')\n" * 99)
    labels = list(dict.fromkeys(one.cell.target for one in records))
    writer.finish({**facts(labels), "exit_code": 1, **changes}, complete)
    return Run.load(folder)


def test_a_page_stays_small(record: MakeRecord, tmp_path: Path) -> None:
    """Below 2 MB for hundreds of failing cells, with a detail of each finding; it says what it lacks."""
    records = [
        record(
            loss_type=f"loss{number}",
            case_id=f"{number:012x}",
            verdict=Verdict.DIVERGES,
            loss=FAR,
            regions=tuple(f"region_{one}" for one in range(12)),
        )
        for number in range(300)
    ]
    findings = [finding(one, f"kind {number % 3}") for number, one in enumerate(records)]
    run = written(tmp_path / "run", records, findings=findings)
    page = FORMATS[ReportFormat.HTML](run)
    assert len(page.encode()) < 2_000_000
    left_out = re.search(r"(\d+) of 300 details are short", page)
    assert left_out is not None
    assert 0 < int(left_out[1]) < 300
    for number in range(3):
        assert f"print(&#39;{number:012x}&#39;)" in page
    assert page.count('<details class="cell') == 300


def test_nothing_is_left_out_of_a_small_page(record: MakeRecord, tmp_path: Path) -> None:
    """Every verdict has its cell and its word; what lies beside a failing case in the run is in its detail."""
    page = FORMATS[ReportFormat.HTML](written(tmp_path / "run", every_verdict(record)))
    assert "details are short" not in page
    assert "<strong>fails</strong>: 5 of 9 cells fail" in page
    for verdict in Verdict:
        assert f'data-verdict="{verdict}"' in page
    assert page.count("masked: row 0") == page.count("and 3 more tokens") == 5


def test_an_incomplete_run_is_no_pass(record: MakeRecord, tmp_path: Path) -> None:
    """Its page says so first, and calls nothing good."""
    page = FORMATS[ReportFormat.HTML](written(tmp_path / "run", [record()], complete=False))
    assert "<strong>incomplete</strong>: the run did not come to its end" in page
    assert 'class="cell good"' not in page
    assert "passes" not in page


def test_a_run_without_rows(tmp_path: Path) -> None:
    """As at the beginning of a run, whose page is written before anything is judged."""
    page = FORMATS[ReportFormat.HTML](written(tmp_path / "run", [], complete=False))
    assert "The run holds no rows." in page


def test_a_damaged_table_of_tokens_is_left_out(record: MakeRecord, tmp_path: Path) -> None:
    """The rest of the page is there."""
    wrong = record(verdict=Verdict.DIVERGES, loss=FAR)
    run = written(tmp_path / "run", [wrong])
    assert "B 1, T 2" in render(run, gate(run))
    (run.path / "tokens" / f"{wrong.case_id}.json").write_text('{"format": "lossgate-tokens/1", "columns": 3}')
    page = render(run, gate(run))
    assert "B 1, T 2" not in page
    assert "lossgate replay" in page


def test_the_table_of_tokens_round_trips() -> None:
    """What is stored is what is printed."""
    again = TokenTable.from_json(TABLE.to_json())
    assert list(again.lines) == list(TABLE.lines)
    assert "  and 3 more tokens" in again.lines
    with pytest.raises(ValueError, match="different lengths"):
        TokenTable.from_json(replace(TABLE, columns={"row": ("0",), "got": ()}).to_json())


@pytest.mark.parametrize(
    ("dtype", "loss", "gradient", "text"),
    [
        ("float32", 0.5, 0.0, "24/24 bits"),
        ("float32", 1.0, 8.0, "21/24 bits"),
        ("float64", math.nan, 2.0**53, "0/53 bits"),
        ("bfloat16", math.inf, 1.0, "0/8 bits"),
        ("bfloat16", math.nan, math.nan, ""),
    ],
)
def test_bits_of_agreement(dtype: str, loss: float, gradient: float, text: str) -> None:
    """An error of 2^k ulps costs k bits; the worse of loss and gradient counts."""
    assert Agreement.of_cell({"dtype": dtype, "loss_ulps": loss, "gradient_ulps": gradient}).text == text


def test_charts_say_what_they_show() -> None:
    """The bound itself is within it; what was not compared is not counted; what is beyond the axis is drawn."""
    chart = Histogram.of("loss", [0.0, 1.0, 1.0 + 1e-12, math.inf, math.nan])
    assert chart is not None
    assert chart.summary == "2 cases within the bound, 2 beyond; median 1, largest inf"
    assert chart.within.count("M") == chart.beyond.count("M") == 2
    assert Histogram.of("loss", [math.nan]) is None
    points = Scatter.of("tokens", [(1, 0.5), (7, 3.0), (3, math.nan)], logarithmic=True)
    assert points is not None
    assert points.summary == "2 cases from 1 to 7; 1 beyond the bound, at 7"


def test_every_cell_has_an_address_of_its_own(record: MakeRecord, tmp_path: Path) -> None:
    """Also where names differ in nothing that an address can hold."""
    run = written(tmp_path / "run", [record(target=name) for name in ("a:b", "a-b", "<>", HOSTILE)])
    entries: tuple[Entry, ...] = gate(run).entries
    found = anchors(entries)
    assert len(set(found)) == 4
    assert found[0] == "a-b-grpo-token-beta-0.04-float32"
    assert all(re.fullmatch(r"[A-Za-z0-9.-]+", anchor) for anchor in found)


def test_a_comparison(record: MakeRecord, tmp_path: Path) -> None:
    """What is new is a regression in the head, and names stay text."""
    base = written(tmp_path / "base", [record(target=HOSTILE)])
    wrong = record(target=HOSTILE, verdict=Verdict.DIVERGES, loss=Divergence(1.0, 9.0, 30.0))
    head = written(tmp_path / "head", [wrong], findings=[finding(wrong, "computes <b>bnpo</b>")])
    page = comparison_page.render([compared(Side(base, HOSTILE), Side(head, HOSTILE), same_schedule=True)])
    assert "<strong>regression</strong>: 1 cell does worse" in page
    assert "New divergences" in page
    assert "computes &lt;b&gt;bnpo&lt;/b&gt;" in page
    assert '<a b="' not in page
    same = comparison_page.render([compared(Side(base, HOSTILE), Side(base, HOSTILE), same_schedule=True)])
    assert "<strong>no regression</strong>" in same


def test_a_matrix() -> None:
    """Cells link to what is wrong in them; releases that are alike share a column, and each has its own below."""
    page = matrix_page.render(MATRIX)
    assert "13 cells of 5 releases: 5 of them fail" in page
    assert page.count('<a href="#note-1">DIV') == 3 + 5
    assert f'<h3 id="note-1" tabindex="-1">[1] {OFF}</h3>' in page
    assert "1.3.0 not judged: trl 1.3.0 needs x | y" in page
    cut_short = matrix_page.render(replace(MATRIX, complete=False))
    assert "<strong>incomplete</strong>: releases are missing" in cut_short
