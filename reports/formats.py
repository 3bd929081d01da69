"""The formats that a run is rendered in, by name: each is one file, imported when it is asked for."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reports.gate import Gate
    from reports.run import Run


class ReportFormat(StrEnum):
    """The formats that there are."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"
    HTML = "html"


LOG_WIDTH: Final = 100
"""Columns of a table that is not printed on a terminal."""


def gate(run: Run) -> Gate:
    """The run as a gate sees it, with the time that each cell took."""
    from reports.gating import gate_of
    from reports.schema import CELL_COLUMNS

    seconds = run.timings().groupby(list(CELL_COLUMNS))["seconds"].sum().to_dict()
    return gate_of(run.rows, run.facts, run.path, seconds)


def _table(run: Run) -> str:
    from rich.console import Console

    from reports import terminal
    from reports.table import cell_table

    text = io.StringIO()
    terminal.render(cell_table(run.rows), run.facts, Console(file=text, width=LOG_WIDTH, no_color=True))
    return text.getvalue()


def _markdown(run: Run) -> str:
    from reports import markdown
    from reports.table import cell_table

    return markdown.render(cell_table(run.rows), run.facts)


def _json(run: Run) -> str:
    from reports import json_report
    from reports.table import cell_table

    return json_report.render(cell_table(run.rows), run.facts)


def _junit(run: Run) -> str:
    from reports import junit

    return junit.render(gate(run))


def _sarif(run: Run) -> str:
    from reports import sarif

    return sarif.render(gate(run))


def _github(run: Run) -> str:
    from reports import github

    return github.commands(gate(run))


def _html(run: Run) -> str:
    from reports.html.run import render

    return render(run, gate(run))


FORMATS: Final[Mapping[ReportFormat, Callable[[Run], str]]] = MappingProxyType(
    {
        ReportFormat.TABLE: _table,
        ReportFormat.MARKDOWN: _markdown,
        ReportFormat.JSON: _json,
        ReportFormat.JUNIT: _junit,
        ReportFormat.SARIF: _sarif,
        ReportFormat.GITHUB: _github,
        ReportFormat.HTML: _html,
    }
)
"""A run, finished or not, as text that ends with a newline, or is empty where there is nothing to say."""
