"""The table on a terminal: readable at 100 columns, without colour, and in a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import pandas as pd
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports.facts import INCOMPLETE, Facts, is_complete
from reports.notation import divergence, one_line
from reports.records import Verdict
from reports.table import QUANTITIES, summary

LEGEND: Final = "loss, gradient: largest error, in ulps, as error / bound (above 1: not rounding)"

_NUMERIC: Final = ("beta", "cases")
_STYLES: Final = {Verdict.CONFORMS: "green", Verdict.OVERFLOW: "yellow", Verdict.UNSUPPORTED: "dim"}


@dataclass(frozen=True)
class _Line:
    """One cell as it is printed: a text a column, and what is said under it."""

    texts: dict[str, str]
    verdict: Verdict
    message: str


def render(table: pd.DataFrame, facts: Facts, console: Console, show_all: bool = False) -> None:
    """Print what `cell_table` made: the cells that do not conform, or all, then one line a target."""
    if not is_complete(facts):
        console.print(Text(f"INCOMPLETE: {INCOMPLETE}", style="bold red"))
    shown = table if show_all else table[table["verdict"] != Verdict.CONFORMS.value]
    for place, cells in shown.groupby(["target", "surface", "device"], sort=False):
        console.print(Text("  ".join(one_line(part) for part in place), style="bold"))
        _print(list(_lines(cells)), console)
        console.print()
    if len(shown):
        console.print(Text(LEGEND, style="dim"))
        for message, cells in shown[shown["verdict"] == Verdict.OVERFLOW.value].groupby("message", sort=False):
            count = f"{len(cells)} cell{'s' if len(cells) > 1 else ''}"
            console.print(Text(f"overflow in {count}: {one_line(str(message))}", style="yellow"))
    for target in summary(table):
        console.print(Text(one_line(target.sentence), style=_style(target.verdict)))
    if table.empty:
        console.print(Text("nothing was judged: the run holds no rows", style="bold red"))


def _lines(cells: pd.DataFrame) -> Iterator[_Line]:
    rows = cells.to_dict("records")
    errors = {quantity: _aligned([divergence(row, quantity) for row in rows]) for quantity in QUANTITIES}
    for number, row in enumerate(rows):
        verdict = Verdict(row["verdict"])
        conforms = verdict is Verdict.CONFORMS
        texts = {
            "loss_type": row["loss_type"],
            "level": row["level"],
            "beta": f"{row['beta']:g}",
            "dtype": row["dtype"],
            "cases": f"{row['cases']}",
            "verdict": verdict.value if conforms else verdict.value.upper(),
            "loss": errors["loss"][number],
            "gradient": errors["gradient"][number],
            "witness": row["witness"],
        }
        # An overflow is no fault of its cell: what there is to say of it is said once, under the table.
        said_below = conforms or verdict is Verdict.OVERFLOW
        yield _Line(texts, verdict, "" if said_below else one_line(row["message"]))


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
