"""The table on a terminal: readable at 100 columns, without colour, and in a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import pandas as pd
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports.expectations import Expected, as_judged, expected, headline
from reports.facts import (
    INCOMPLETE,
    Facts,
    conventions_summary,
    corpus_case,
    findings,
    is_complete,
    not_supported,
    padding_summary,
    strength_summary,
)
from reports.notation import compact, divergence, one_line
from reports.records import Verdict
from reports.schema import CELL_COLUMNS
from reports.table import QUANTITIES, summary

WIDE: Final = 90
NARROW: Final = 76
LEGEND: Final = "loss, gradient: largest error, in ulps, as error / bound (above 1: not rounding)"
SHORT_LEGEND: Final = "loss, gradient: largest error / bound (above 1: not rounding)"
SHORTEST_LEGEND: Final = "error: largest error / bound of loss and gradient (above 1: not rounding)"

_ABOUT: Final = ("lossgate", "profile", "seed", "case_set")
_SAID_BELOW: Final = (Verdict.KNOWN, Verdict.OVERFLOW, Verdict.UNSUPPORTED)
_UNREMARKABLE: Final = (Verdict.CONFORMS.value, Verdict.UNSUPPORTED.value)
_NUMERIC: Final = ("beta", "cases")
_NOT_NARROW: Final = (*QUANTITIES, "witness")
_NARROW_ONLY: Final = ("error",)
_STYLES: Final = {
    Verdict.CONFORMS: "green",
    Verdict.OVERFLOW: "yellow",
    Verdict.KNOWN: "yellow",
    Verdict.UNSUPPORTED: "dim",
}


@dataclass(frozen=True)
class _Line:
    """One cell as it is printed: a text a column, and what is said under it."""

    texts: dict[str, str]
    verdict: Verdict
    message: str


def render(table: pd.DataFrame, facts: Facts, console: Console, show_all: bool = False) -> None:
    """Print what `cell_table` made: the cells that do not conform, or all, then one line a target."""
    complete = is_complete(facts)
    if not complete:
        console.print(Text(f"INCOMPLETE: {INCOMPLETE}", style="bold red"))
    table = as_judged(table, facts)
    entries = expected(facts)
    signatures = findings(facts)
    named = partial(corpus_case, facts)
    shown = table if show_all else table[~table["verdict"].isin(_UNREMARKABLE)]
    wide, narrow = console.width >= WIDE, console.width < NARROW
    for (target, surface, device), cells in shown.groupby(["target", "surface", "device"], sort=False):
        title = "  ".join(one_line(part) for part in (target, surface, device))
        console.print(Text(title, style="bold"))
        lines = list(_lines(cells, signatures, named, wide))
        _print([_without(line, _NOT_NARROW if narrow else _NARROW_ONLY) for line in lines], console)
        console.print()
    if len(shown):
        legend = LEGEND if wide else SHORTEST_LEGEND if narrow else SHORT_LEGEND
        console.print(Text(legend, style="dim"))
    # What is known is said entry by entry, once the run knows what became of each.
    for verdict in (one for one in _SAID_BELOW if one is not Verdict.KNOWN or not entries):
        alike = table[table["verdict"] == verdict.value]
        for message, cells in alike.groupby(alike["message"].str.split("\n").str[0], sort=False):
            where = f"{_count(len(cells), 'cell')}, {_count(int(cells[verdict.value].sum()), 'case')}"
            console.print(Text(f"{verdict} in {where}: {one_line(str(message))}", style=_style(verdict)))
    _print_expectations(entries, console)
    for target in summary(table):
        sentence = target.sentence if complete else f"so far, {target.sentence}"
        console.print(Text(one_line(sentence), style=_style(target.verdict)))
        _print_about(target.target, facts, console)
    judged = set(table["target"])
    for label in facts.get("targets", {}):
        if label not in judged:
            console.print(Text(f"{one_line(label)}: nothing was judged", style="bold red"))
            _print_about(label, facts, console)
    if table.empty:
        console.print(Text("the run holds no rows", style="bold red"))
    about = [f"{name} {facts[name]}" for name in _ABOUT if facts.get(name) is not None]
    if about:
        console.print(Text("  ".join(one_line(part) for part in about).replace("_", " "), style="dim"))


def _print_expectations(entries: list[Expected], console: Console) -> None:
    if entries:
        console.print(Text(headline(entries)))
    for entry in entries:
        outcome = entry.outcome.upper() if entry.fails else entry.outcome.value
        style = "bold red" if entry.fails else "yellow"
        parts = [f"{outcome}: {entry.what}", entry.extent, entry.reason]
        _print_indented(": ".join(part for part in parts if part), 2, style, console)
        if entry.message:
            _print_indented(f"{entry.message} ({entry.where})", 4, style, console)


def _print_indented(text: str, indent: int, style: str, console: Console) -> None:
    console.print(Padding(Text(one_line(text), style=style), (0, 0, 0, indent), expand=False))


def _print_about(target: str, facts: Facts, console: Console) -> None:
    summaries = (not_supported, conventions_summary, padding_summary, strength_summary)
    for words in (said(facts, target) for said in summaries):
        if words:
            console.print(Text(f"  {words}", style="dim"))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _lines(
    cells: pd.DataFrame, signatures: Mapping[tuple[Any, ...], str], named: Callable[[str], str], wide: bool
) -> Iterator[_Line]:
    said = ""
    rows = cells.to_dict("records")
    kept = slice(None) if wide else slice(2, None)
    errors = {quantity: _aligned([divergence(row, quantity)[kept] for row in rows]) for quantity in QUANTITIES}
    for number, row in enumerate(rows):
        verdict = Verdict(row["verdict"])
        judged = row["cases"] - row[Verdict.UNSUPPORTED.value]
        failing = sum(row[one.value] for one in Verdict if one.fails)
        ratios = [float(row[f"{quantity}_ratio"]) for quantity in QUANTITIES]
        texts = {
            "loss_type": row["loss_type"],
            "level": row["level"],
            "beta": f"{row['beta']:g}",
            "dtype": row["dtype"],
            "cases": f"{failing}/{judged}" if failing else f"{judged}",
            "verdict": verdict.value.upper() if verdict.fails else verdict.value,
            "loss": errors["loss"][number],
            "gradient": errors["gradient"][number],
            "witness": row["witness"],
            "error": compact(max((error for error in ratios if not math.isnan(error)), default=math.nan)),
        }
        # What many cells have in common is said once, under the table.
        said_below = verdict is Verdict.CONFORMS or verdict in _SAID_BELOW
        signature = signatures.get(tuple(row[column] for column in CELL_COLUMNS), "")
        # One that goes on over several cells is said at the first.
        message = "" if said_below or (signature and signature == said) else one_line(signature) or _message(row)
        said = signature
        case = named(row["witness"])
        if message and case:
            message += f" (the witness is corpus case {case})"
        yield _Line(texts, verdict, message)


def _without(line: _Line, names: Collection[str]) -> _Line:
    return replace(line, texts={name: text for name, text in line.texts.items() if name not in names})


def _message(row: dict[Any, Any]) -> str:
    """What was seen in the witness, and what else went wrong in the cell."""
    others = [row["also"]] if row["also"] else []
    return one_line("; ".join([row["message"].split("\n")[0], *others]))


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    columns = zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    return [" ".join(text.rjust(width) for text, width in zip(row, widths, strict=False)) for row in rows]


def _print(lines: list[_Line], console: Console) -> None:
    header = {name: name for name in lines[0].texts}
    widths = {name: max(len(name), *(len(line.texts[name]) for line in lines)) for name in header}
    # Two blanks between columns where they fit, one where they do not.
    gap = 2 if sum(widths.values()) + 2 * (len(widths) - 1) <= console.width else 1
    console.print(_row(header, widths, gap, "dim"))
    for line in lines:
        console.print(_row(line.texts, widths, gap, _style(line.verdict)))
        if line.message:
            console.print(Padding(Text(line.message), (0, 0, 0, 4), expand=False))


def _row(texts: dict[str, str], widths: dict[str, int], gap: int, style: str) -> Any:
    # A grid a row, because a message under a row spans all columns.
    row = Table.grid(padding=(0, gap, 0, 0))
    for name, width in widths.items():
        row.add_column(width=width, justify="right" if name in _NUMERIC else "left", overflow="fold")
    row.add_row(*(Text(text, style=style if name == "verdict" else "") for name, text in texts.items()))
    return row


def _style(verdict: Verdict) -> str:
    return _STYLES.get(verdict, "bold red")
