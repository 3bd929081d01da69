"""The table as GitHub Markdown, with everything: for step summaries, pull requests and issues."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pandas as pd

from reports.expectations import as_judged, expected
from reports.facts import INCOMPLETE, Facts, headline, is_complete, padding_lines, targets
from reports.notation import divergence, one_line
from reports.records import Verdict
from reports.schema import CELL_COLUMNS
from reports.table import QUANTITIES, summary

CELL_HEADER: Final = (
    *CELL_COLUMNS,
    "cases",
    "verdict",
    "cases by verdict",
    *(f"{quantity}: error, ulps, error / bound" for quantity in QUANTITIES),
    "witness",
    "same bits twice",
    "message",
)

_SPECIAL: Final = re.compile(r"([\\`*_\[\]|~#!])")


def render(table: pd.DataFrame, facts: Facts) -> str:
    """What `cell_table` made, and the facts of the run, as Markdown text."""
    return "\n".join(_lines(table, facts)) + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is, on one line, inside a table cell as elsewhere."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", safe)


def _lines(table: pd.DataFrame, facts: Facts) -> Iterator[str]:
    table = as_judged(table, facts)
    yield "# lossgate report"
    yield ""
    if not is_complete(facts):
        yield "> [!CAUTION]"
        yield f"> **INCOMPLETE**: {INCOMPLETE}"
        yield ""
    for target in summary(table):
        sentence = escape(target.sentence)
        yield f"- **{sentence}**" if target.verdict.fails else f"- {sentence}"
        for line in padding_lines(facts, target.target):
            yield f"  - {escape(line)}"
    if table.empty:
        yield "- **nothing was judged: the run holds no rows**"
    yield ""
    entries = expected(facts)
    if entries:
        yield from _grid(
            ("expected", "outcome", "where it was met", "reason", "message", "entry"),
            (
                (
                    one.what,
                    one.outcome.upper() if one.fails else one.outcome,
                    one.extent,
                    one.reason,
                    one.message,
                    one.where,
                )
                for one in entries
            ),
        )
    about = headline(facts)
    if about:
        yield from _grid(("fact", "value"), about)
    tested = targets(facts)
    if tested:
        yield from _grid(
            ("target", "versions", "replaced", "conventions"),
            ((target.label, target.versions, target.replaced, target.conventions) for target in tested),
        )
    if len(table):
        yield from _grid(CELL_HEADER, map(_cell, table.to_dict("records")))


def _grid(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    names = [escape(name) for name in header]
    yield _row(names)
    yield "|" + "---|" * len(names)
    for row in rows:
        yield _row(escape(text) for text in row)
    yield ""


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(row: Mapping[Any, Any]) -> Iterator[str]:
    verdict = Verdict(row["verdict"])
    for column in CELL_COLUMNS:
        yield f"{row[column]:g}" if column == "beta" else row[column]
    yield f"{row['cases']}"
    yield verdict.value.upper() if verdict.fails else verdict.value
    yield ", ".join(f"{row[each.value]} {each}" for each in Verdict if row[each.value])
    for quantity in QUANTITIES:
        yield " ".join(divergence(row, quantity))
    yield row["witness"]
    yield row["bits_equal"]
    yield "; ".join(part for part in (row["message"], row["also"]) if part)
