"""A matrix: releases that are alike share a column, every signature has one note, and the file round-trips."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from reports.columns import Asked, Column, Result
from reports.matrix import Matrix
from reports.matrix_file import as_json, load, save
from reports.matrix_formats import markdown, print_table
from reports.records import Verdict
from reports.store import RunStoreError

FACTS = {
    "name": "trl",
    "range": "1.0.0..",
    "source": "cache",
    "requested": [f"trl==1.{number}.0" for number in range(6)],
    "loss_types": ["grpo", "dapo"],
    "levels": ["token"],
    "betas": [0.0, 0.04],
    "dtypes": ["float32"],
    "examples": 16,
    "seed": 0,
    "lossgate": "0.1.0",
}
OFF = "loss and gradient x 1/2; only within: a generation batch of several optimizer steps"


def result(loss_type: str, beta: float, error: float, signature: str = "") -> Result:
    """A cell that diverges where there is a signature."""
    verdict = Verdict.DIVERGES if signature else Verdict.CONFORMS
    return Result(Asked(loss_type, "token", beta, "float32"), verdict, error, 99, signature, "0123456789ab")


def column(number: int, *results: Result, why_not: str = "") -> Column:
    """A release of those asked for."""
    return Column(f"1.{number}.0", results, "" if why_not else f"trl-1.{number}.0", why_not)


COLUMNS = (
    column(0, result("grpo", 0.0, 0.3)),
    column(1, result("dapo", 0.0, 8e6, OFF), result("grpo", 0.0, 0.31), result("dapo", 0.04, math.inf, OFF)),
    column(2, result("grpo", 0.0, 0.4), result("dapo", 0.0, 9e6, OFF), result("dapo", 0.04, 3e6, OFF)),
    column(3, why_not="trl 1.3.0 needs x | y, which is not installed"),
    column(4, result("grpo", 0.0, 0.4), result("dapo", 0.0, 0.2), result("dapo", 0.04, math.nan)),
    column(5, result("grpo", 0.0, 0.4), result("dapo", 0.0, 0.2), result("dapo", 0.04, 30.0, OFF)),
)
MATRIX = Matrix(FACTS, COLUMNS, complete=True)


def printed(matrix: Matrix, width: int = 100) -> list[str]:
    """Its lines on a terminal of a width, without colour."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_table(matrix, console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_on_a_terminal() -> None:
    """Rows as they were asked for, alike releases in one column with the worst error, what is lacking as a dot."""
    lines = printed(MATRIX)
    assert lines[:6] == [
        "trl 1.0.0..",
        "                                1.1.0",
        "loss_type  level  beta  1.0.0   -1.2.0       1.3.0  1.4.0   1.5.0",
        "grpo       token     0  ok 0.3  ok 0.4       ?      ok 0.4  ok 0.4",
        "dapo       token     0  .       DIV 9e6 [1]  ?      ok 0.2  ok 0.2",
        "dapo       token  0.04  .       DIV inf [1]  ?      ok      DIV 30 [1]",
    ]
    assert f"[1] {OFF}" in lines
    assert "    1.1.0-1.2.0: dapo token beta 0" in lines
    assert "    1.1.0-1.2.0, 1.5.0: dapo token beta 0.04" in lines
    assert "1.3.0 not judged: trl 1.3.0 needs x | y, which is not installed" in lines
    assert "judged: 5 of 6 releases in the cache; float32; seed 0; examples per cell 16; lossgate 0.1.0" in lines
    assert lines[-1] == "trl 1.0.0..: 13 cells of 5 releases: 5 of them fail"


def test_a_note_names_what_is_whole() -> None:
    """A loss that fails in all its cells is named alone, one that does in all of a level with the level."""
    facts = FACTS | {"levels": ["token", "sequence"]}

    def cell(loss_type: str, level: str, beta: float, signature: str) -> Result:
        return replace(result(loss_type, beta, 9.0, signature), asked=Asked(loss_type, level, beta, "float32"))

    columns = (
        Column(
            "1.0.0", tuple(cell("grpo", level, beta, OFF) for level in ("token", "sequence") for beta in (0, 0.04))
        ),
        Column(
            "1.1.0", (*(cell("dapo", "token", beta, OFF) for beta in (0, 0.04)), cell("dapo", "sequence", 0, ""))
        ),
    )
    (note,) = Matrix(facts, columns, complete=True).notes
    assert note.places == (("1.0.0", "grpo"), ("1.1.0", "dapo token"))


def test_another_signature_is_another_column() -> None:
    """Releases that diverge in the same cells in different ways do not share a column."""
    ways = (OFF, OFF, "computes bnpo", OFF)
    columns = [column(number, result("dapo", 0.0, 9.0, way)) for number, way in enumerate(ways)]
    matrix = Matrix(FACTS, tuple(columns), complete=True)
    assert [group.name for group in matrix.groups] == ["1.0.0-1.1.0", "1.2.0", "1.3.0"]
    assert [note.places for note in matrix.notes] == [(("1.0.0-1.1.0, 1.3.0", "dapo"),), (("1.2.0", "dapo"),)]


def test_narrow() -> None:
    """What does not fit beside each other comes below, with the names of the rows again."""
    lines = printed(MATRIX, 50)
    assert max(map(len, lines[: lines.index("")])) <= 50
    assert sum(line.startswith("loss_type") for line in lines) > 1


def test_markdown() -> None:
    """Alike releases as one, then every release; what a library says cannot break the table."""
    text = markdown(MATRIX)
    assert "| loss\\_type | level | beta | 1.0.0 | 1.1.0-1.2.0 | 1.3.0 | 1.4.0 | 1.5.0 |" in text
    assert "| dapo | token | 0 | . | DIV 9e6 \\[1\\] | ? | ok 0.2 | ok 0.2 |" in text
    assert "| loss\\_type | level | beta | 1.0.0 | 1.1.0 | 1.2.0 | 1.3.0 | 1.4.0 | 1.5.0 |" in text
    assert "needs x \\| y" in text
    assert "INCOMPLETE" not in text
    assert "INCOMPLETE" in markdown(Matrix(FACTS, COLUMNS[:2], complete=False))


def test_the_file(tmp_path: Path) -> None:
    """What is written is what is read, infinities and what was not compared included; it is strict JSON."""
    save(MATRIX, tmp_path / "a")
    again = load(tmp_path / "a")
    assert as_json(again) == as_json(MATRIX) == (tmp_path / "a" / "matrix.json").read_text()
    assert again.complete
    assert printed(again) == printed(MATRIX)
    content = json.loads(as_json(MATRIX), parse_constant=lambda name: pytest.fail(name))
    assert content["format"] == "lossgate-matrix/1"
    assert [cell["error"] for cell in content["releases"][1]["cells"]] == [8e6, 0.31, "inf"]
    assert content["releases"][4]["cells"][2]["error"] is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "lossgate-matrix/1", "releases": [{}]}'])
def test_a_damaged_file(content: str, tmp_path: Path) -> None:
    """One sentence, whatever is in it."""
    (tmp_path / "matrix.json").write_text(content)
    with pytest.raises(RunStoreError, match=r"is damaged|cannot read"):
        load(tmp_path)
    with pytest.raises(RunStoreError, match="is no matrix"):
        load(tmp_path / "nothing")
