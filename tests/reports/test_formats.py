from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from reports import json_report, markdown, terminal
from reports.notation import compact, one_line
from reports.records import Divergence, Record, Verdict
from reports.table import cell_table

MakeRecord = Callable[..., Record]
RowsOf = Callable[[Iterable[Record]], pd.DataFrame]

ABOUT = "lossgate 0.1.0  profile ci  seed 0  case set 3f2a91c7"
FACTS: dict[str, Any] = {
    "complete": True,
    "lossgate": "0.1.0",
    "seed": 0,
    "profile": "ci",
    "examples": 64,
    "case_set": "3f2a91c7",
    "platform": {"system": "Linux", "python": "3.11.7"},
    "started": "2026-01-02T03:04:05+00:00",
    "exit_code": 1,
    "targets": {
        "trl 1.16.0": {
            "versions": {"trl": "1.16.0", "torch": "2.9.0"},
            "replaced": ["accelerator", "_get_per_token_logps"],
            "conventions": {"padding": ["finite", "huge"]},
        }
    },
}
INCOMPLETE = "INCOMPLETE: the run did not come to its end"


@pytest.fixture
def mixed(record: MakeRecord, rows_of: RowsOf) -> pd.DataFrame:
    """Two targets, most verdicts, the widest words."""
    far = Divergence(4.2e-3, 1.3e6, 1.3e4)
    return cell_table(
        rows_of(
            [
                record(),
                record(loss_type="dr_grpo", level="sequence", dtype="bfloat16", beta=0.0),
                record(
                    loss_type="bnpo",
                    verdict=Verdict.DIVERGES,
                    loss=far,
                    message="loss x 1.31: the mean is taken over rows, and then over the batch, instead of "
                    "over all tokens at once",
                    case_id="3f2a91c7aa01",
                ),
                record(loss_type="bnpo", dtype="float64", verdict=Verdict.NONDETERMINISTIC),
                record(
                    loss_type="dr_grpo",
                    dtype="float16",
                    verdict=Verdict.OVERFLOW,
                    loss=Divergence(math.inf, math.inf, 0.5),
                    message="NaN where the formula is finite",
                ),
                record(target="verl 0.9", verdict=Verdict.CRASH, message="died of signal 11\nlast words"),
                record(
                    target="verl 0.9",
                    level="sequence",
                    verdict=Verdict.UNSUPPORTED,
                    message="it has no sequence level",
                ),
            ]
        )
    )


def shown(
    table: pd.DataFrame, facts: dict[str, Any] = FACTS, *, show_all: bool = False, width: int = 100
) -> list[str]:
    text = io.StringIO()
    terminal.render(table, facts, Console(file=text, width=width, color_system=None), show_all)
    return [line.rstrip() for line in text.getvalue().splitlines()]


SNAPSHOT = """
trl 1.16.0  logps  cpu
loss_type level beta dtype   cases verdict          loss          gradient       witness
dr_grpo   token 0.04 float16     1 overflow          inf  inf 0.5 1e-9 0.25u 0.5 000000000000
bnpo      token 0.04 float32   1/1 DIVERGES         4e-3 1e6u 1e4 1e-9 0.25u 0.5 3f2a91c7aa01
    loss x 1.31: the mean is taken over rows, and then over the batch, instead of over all tokens at
    once
bnpo      token 0.04 float64   1/1 NONDETERMINISTIC    -             -           000000000000

verl 0.9  logps  cpu
loss_type  level  beta  dtype    cases  verdict  loss  gradient  witness
grpo       token  0.04  float32    1/1  CRASH    -     -         000000000000
    died of signal 11

loss, gradient: largest error, in ulps, as error / bound (above 1: not rounding)
overflow in 1 cell, 1 case: NaN where the formula is finite
unsupported in 1 cell, 1 case: it has no sequence level
trl 1.16.0: 5 cells, 5 cases: 2 conform, 1 DIVERGES, 1 NONDETERMINISTIC, 1 overflow
verl 0.9: 2 cells, 1 case: 1 CRASH, 1 unsupported
lossgate 0.1.0  profile ci  seed 0  case set 3f2a91c7
"""


def test_terminal_at_100_columns_without_colour(mixed: pd.DataFrame) -> None:
    """The layout is a contract: cells that do not conform, what happened under them, a line a target."""
    assert "\n".join(shown(mixed)) == SNAPSHOT.strip("\n")


def test_terminal_shows_every_cell_on_demand(mixed: pd.DataFrame) -> None:
    """With all cells the conforming ones are there too, in lower case."""
    lines = shown(mixed, show_all=True)
    assert sum(" conforms " in line for line in lines) == 2
    assert not any(" conforms " in line for line in shown(mixed))
    assert all(len(line) <= 100 for line in lines)


def test_terminal_of_a_green_run_is_one_line(record: MakeRecord, rows_of: RowsOf) -> None:
    """Nothing to report is said in one line a target."""
    assert shown(cell_table(rows_of([record()]))) == ["trl 1.16.0: 1 cell, 1 case: conforms", ABOUT]


def test_terminal_says_what_a_target_lacks_and_declares(record: MakeRecord, rows_of: RowsOf) -> None:
    """What was asked for and is not there, and the conventions that the verdict rests on, in a line each."""
    target = {
        "supports": {"loss_types": ["grpo"], "levels": ["token"], "dtypes": ["float32"]},
        "conventions": {"dual_clip": 3.0, "padding": ["finite"]},
        "conventions_by_loss": {"cispo": {"cispo_clip": "two_sided"}},
    }
    facts = {**FACTS, "targets": {"trl 1.16.0": target}, "loss_types": ["grpo", "vespo"], "dtypes": ["float32"]}
    assert shown(cell_table(rows_of([record()])), facts) == [
        "trl 1.16.0: 1 cell, 1 case: conforms",
        "  not supported: loss type vespo",
        "  conventions: dual clip 3.0; cispo clip two_sided (cispo)",
        ABOUT,
    ]


@pytest.mark.parametrize("facts", [{}, {"complete": False}])
def test_terminal_says_first_that_a_run_is_incomplete(mixed: pd.DataFrame, facts: dict[str, Any]) -> None:
    """A run that does not say it came to its end is never shown as if it had."""
    assert shown(mixed, facts)[0].startswith(INCOMPLETE)
    assert not any(INCOMPLETE in line for line in shown(mixed))


def test_a_run_without_rows_is_not_shown_as_green(rows_of: RowsOf) -> None:
    """Silence would read as success."""
    nothing = cell_table(rows_of([]))
    assert shown(nothing) == ["trl 1.16.0: nothing was judged", "the run holds no rows", ABOUT]
    assert "nothing was judged" in markdown.render(nothing, FACTS)


def test_a_narrow_terminal_loses_nothing(mixed: pd.DataFrame) -> None:
    """Columns are folded, not cut."""
    text = "".join("".join(shown(mixed, width=60)).split())
    assert "signal11" in text
    assert "…" not in text


def test_foreign_text_cannot_steer_the_terminal(record: MakeRecord, rows_of: RowsOf) -> None:
    """Escape sequences are made visible and rich's markup is taken literally."""
    table = cell_table(
        rows_of([record(target="[red]t[/red]", verdict=Verdict.ERROR, message="\x1b[2J[bold]gone\t[/x]")])
    )
    text = "\n".join(shown(table))
    assert "\x1b" not in text
    assert "\\x1b[2J[bold]gone [/x]" in text
    assert "[red]t[/red]: 1 cell" in text


def test_markdown_holds_everything(mixed: pd.DataFrame) -> None:
    """Facts, targets, a line a cell, and no warning for a run that came to its end."""
    text = markdown.render(mixed, FACTS)
    assert "| seed | 0 |" in text
    assert "| case set | 3f2a91c7 |" in text
    assert "| lossgate | 0.1.0 |" in text
    assert "trl 1.16.0, torch 2.9.0 | accelerator, \\_get\\_per\\_token\\_logps | padding finite, huge" in text
    assert "- **trl 1.16.0: 5 cells" in text
    cells = [line for line in text.splitlines() if "| logps |" in line]
    assert len(cells) == len(mixed)
    assert "| 1 | DIVERGES | 1 diverges | 4e-3 1e6u 1e4 |" in cells[3]
    assert "INCOMPLETE" not in text


def test_markdown_warns_of_an_incomplete_run(mixed: pd.DataFrame) -> None:
    """The warning stands above the first number."""
    text = markdown.render(mixed, {})
    assert text.index("> **INCOMPLETE**") < text.index("trl 1.16.0")


def test_markdown_tables_hold_whatever_a_target_says(record: MakeRecord, rows_of: RowsOf) -> None:
    """Pipes, HTML, newlines and Markdown in names and messages neither break the table nor take effect."""
    table = cell_table(
        rows_of(
            [
                record(
                    target="a|b<script>",
                    verdict=Verdict.ERROR,
                    message="line one\nline | two\r\n<img src=x> & `code` **bold** [link](http://x) \\",
                )
            ]
        )
    )
    facts = FACTS | {"targets": {"a|b<script>": {"versions": {"x|y": "1\n2"}}}}
    text = markdown.render(table, facts)
    assert "a\\|b&lt;script&gt;" in text
    assert "line one line \\| two &lt;img src=x&gt; &amp; \\`code\\` \\*\\*bold\\*\\*" in text
    assert "<script>" not in text
    assert "<img" not in text
    grids = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert len(grids) == 3
    for grid in grids:
        unescaped = [line.replace("\\\\", "").replace("\\|", "") for line in grid]
        assert len({line.count("|") for line in unescaped}) == 1


def strictly(text: str) -> Any:
    def refuse(token: str) -> None:
        raise ValueError(f"{token} is no JSON")

    return json.loads(text, parse_constant=refuse)


def fits(value: Any, schema: dict[str, Any], whole: dict[str, Any]) -> bool:
    """Whether a value is what a schema says, for the few keywords that ours uses."""
    kinds: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    kinds["number"] = (int, float)
    checks = []
    if "$ref" in schema:
        checks.append(fits(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole))
    if "type" in schema:
        checks.append(isinstance(value, kinds[schema["type"]]))
    if "const" in schema:
        checks.append(value == schema["const"])
    if "enum" in schema:
        checks.append(value in schema["enum"])
    if "anyOf" in schema:
        checks.append(any(fits(value, option, whole) for option in schema["anyOf"]))
    if "items" in schema:
        checks.extend(fits(item, schema["items"], whole) for item in value)
    if "propertyNames" in schema:
        checks.extend(fits(name, schema["propertyNames"], whole) for name in value)
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    if properties or others is not True:
        for name, part in value.items():
            rule = properties.get(name, others)
            checks.append(rule if isinstance(rule, bool) else fits(part, rule, whole))
        checks.extend(name in value for name in schema.get("required", []))
    return all(checks)


def test_json_is_strict_and_fits_its_schema(mixed: pd.DataFrame) -> None:
    """No NaN and no Infinity token; every key is one the shipped schema names."""
    facts = FACTS | {"limits": (math.nan, math.inf, -math.inf)}
    report = strictly(json_report.render(mixed, facts))
    schema = json.loads(json_report.schema())
    assert fits(report, schema, schema)
    assert not fits(report | {"cells": [report["cells"][0] | {"extra": 1}]}, schema, schema)
    assert not fits({name: report[name] for name in report if name != "complete"}, schema, schema)
    assert report["facts"]["limits"] == [None, "inf", "-inf"]


def test_json_holds_what_the_table_holds(mixed: pd.DataFrame) -> None:
    """Exact numbers, null where nothing was compared, "inf" for infinity."""
    report = strictly(json_report.render(mixed, FACTS))
    assert report["format"] == "lossgate-report/1"
    assert report["complete"] is True
    assert report["facts"]["seed"] == 0
    cells = report["cells"]
    assert len(cells) == len(mixed)
    assert cells[0]["loss"] == {"absolute": 3e-8, "ulps": 0.5, "ratio": 0.12}
    crashed = next(cell for cell in cells if cell["verdict"] == "crash")
    assert crashed["loss"] == {"absolute": None, "ulps": None, "ratio": None}
    overflowed = next(cell for cell in cells if cell["verdict"] == "overflow")
    assert overflowed["loss"] == {"absolute": "inf", "ulps": "inf", "ratio": 0.5}
    assert overflowed["verdicts"]["overflow"] == overflowed["cases"] == 1
    assert report["summaries"][1] == {
        "target": "verl 0.9",
        "verdict": "crash",
        "cells": {"crash": 1, "unsupported": 1},
        "cases": 1,
        "sentence": "verl 0.9: 2 cells, 1 case: 1 CRASH, 1 unsupported",
    }


def test_json_of_an_unfinished_run_says_so(mixed: pd.DataFrame) -> None:
    """Facts that say nothing are not taken for completeness."""
    assert strictly(json_report.render(mixed, {}))["complete"] is False


def test_the_schema_names_the_verdicts() -> None:
    """A new verdict cannot be forgotten in the published schema."""
    assert json.loads(json_report.schema())["$defs"]["verdict"]["enum"] == list(Verdict)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (3e-8, "3e-8"),
        (0.123, "0.12"),
        (9.96, "10"),
        (99.7, "100"),
        (532.4, "532"),
        (999.9, "1000"),
        (1.34e6, "1e6"),
        (5e-324, "5e-324"),
        (-0.5, "-0.5"),
        (math.inf, "inf"),
        (math.nan, "-"),
    ],
)
def test_numbers_are_short(number: float, text: str) -> None:
    """No number takes more room than its column has."""
    assert compact(number) == text


def test_one_line_keeps_what_can_be_printed() -> None:
    """Whitespace is folded, letters of any alphabet stay, what cannot be encoded is shown as its code."""
    assert one_line(" a\n\tb é 損失 \x07\udcff\u202e ") == "a b é 損失 \\x07\\udcff\\u202e"
