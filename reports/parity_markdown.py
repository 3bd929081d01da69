"""A parity check as GitHub Markdown, with every cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.markdown import escape
from reports.parity import Parity
from reports.parity_terminal import (
    CELL_HEADER,
    LEGEND,
    SUMMARY_HEADER,
    about_line,
    cell_rows,
    execution_words,
    summary_rows,
    verdict_sentence,
)


def render(parity: Parity) -> str:
    """All of it as Markdown text."""
    return "\n".join(_lines(parity)) + "\n"


def _lines(parity: Parity) -> Iterator[str]:
    yield f"# {escape(parity.target)}: parity"
    yield ""
    yield f"{escape(verdict_sentence(parity))}."
    yield ""
    for one in parity.executions:
        yield f"- **{escape(one.name)}**: {escape(' '.join(execution_words(one, one is parity.reference)))}"
    yield ""
    for finding in parity.findings:
        yield f"- **{escape(finding)}**"
    for note in parity.notes:
        yield f"- {escape(note)}"
    if parity.findings or parity.notes:
        yield ""
    if parity.cells:
        yield from _table(SUMMARY_HEADER, list(summary_rows(parity)))
        yield ""
        yield f"{escape(LEGEND)}."
        yield ""
        yield "<details><summary>Every cell</summary>"
        yield ""
        yield from _table(CELL_HEADER, [row for cell in parity.cells for row in cell_rows(cell)])
        yield ""
        yield "</details>"
        yield ""
    yield escape(about_line(parity))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(map(escape, header))} |"
    yield f"|{' --- |' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(map(escape, row))} |"
