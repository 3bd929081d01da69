"""A matrix on a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports.columns import Asked
from reports.markdown import escape
from reports.matrix import ABSENT, NOT_JUDGED, Group, Matrix
from reports.notation import one_line

INCOMPLETE: Final = "releases are missing: the matrix did not come to its end"

_GAP: Final = 2


def print_table(matrix: Matrix, console: Console) -> None:
    """Print it in as many blocks of columns as the width needs; releases that are alike share a column."""
    if not matrix.complete:
        console.print(Text(f"INCOMPLETE: {INCOMPLETE}", style="bold red"))
    console.print(Text(one_line(matrix.title), style="bold"))
    for block in _blocks(matrix, console.width):
        _print_block(matrix, block, console)
        console.print()
    if matrix.rows:
        console.print(Text(matrix.legend, style="dim"))
    for note in matrix.notes:
        console.print(Text(f"[{note.number}] {one_line(note.signature)}"))
        for releases, cells in note.places:
            console.print(Padding(Text(f"{releases}: {cells}", style="dim"), (0, 0, 0, 4), expand=False))
    for line in _not_judged(matrix):
        console.print(Text(one_line(line), style="bold red"))
    console.print(Text(one_line(matrix.about), style="dim"))
    console.print(Text(matrix.summary))


def markdown(matrix: Matrix) -> str:
    """All of it as GitHub Markdown: releases that are alike as one, then every release."""
    return "\n".join(_markdown(matrix)) + "\n"


def _markdown(matrix: Matrix) -> Iterator[str]:
    yield f"# {escape(matrix.title)}"
    yield ""
    if not matrix.complete:
        yield "> [!CAUTION]"
        yield f"> **INCOMPLETE**: {INCOMPLETE}"
        yield ""
    yield f"{escape(matrix.summary)}."
    yield ""
    yield escape(matrix.about)
    yield ""
    if matrix.rows:
        yield "Releases that are alike, cell by cell, share a column."
        yield ""
        yield from _grid(matrix, matrix.groups)
        yield escape(matrix.legend)
        yield ""
    for note in matrix.notes:
        yield f"- **\\[{note.number}\\]** {escape(note.signature)}"
        for releases, cells in note.places:
            yield f"  - {escape(releases)}: {escape(cells)}"
    for line in _not_judged(matrix):
        yield f"- **{escape(line)}**"
    yield ""
    if len(matrix.groups) < len(matrix.columns):
        yield "<details><summary>Every release</summary>"
        yield ""
        yield from _grid(matrix, [Group((column,)) for column in matrix.columns])
        yield "</details>"


def _grid(matrix: Matrix, groups: Sequence[Group]) -> Iterator[str]:
    header = [*_labels(matrix), *(group.name for group in groups)]
    yield _row(header)
    yield "|" + "---|" * len(header)
    for asked in matrix.rows:
        yield _row([*_values(matrix, asked), *(matrix.text(group, asked) for group in groups)])
    yield ""


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(map(escape, texts))} |"


def _not_judged(matrix: Matrix) -> Iterator[str]:
    for group in matrix.groups:
        if group.why_not:
            yield f"{group.name} not judged: {group.why_not}"


def _labels(matrix: Matrix) -> list[str]:
    return ["loss_type", "level", "beta", *(["dtype"] if matrix.has_dtypes else [])]


def _values(matrix: Matrix, asked: Asked) -> list[str]:
    return [asked.loss_type, asked.level, f"{asked.beta:g}", *([asked.dtype] if matrix.has_dtypes else [])]


def _blocks(matrix: Matrix, width: int) -> Iterator[Sequence[Group]]:
    """Groups that fit beside each other, with the labels of the rows before them."""
    labels = [_labels(matrix), *(_values(matrix, asked) for asked in matrix.rows)]
    taken = sum(max(map(len, column)) + _GAP for column in zip(*labels, strict=True))
    block: list[Group] = []
    used = taken
    for group in matrix.groups:
        own = _width(matrix, group) + _GAP
        if block and used + own > width:
            yield block
            block, used = [], taken
        block.append(group)
        used += own
    if block:
        yield block


def _width(matrix: Matrix, group: Group) -> int:
    texts = (matrix.text(group, asked) for asked in matrix.rows)
    return max(map(len, (*_heading(group).split("\n"), *texts)))


def _heading(group: Group) -> str:
    first, last = group.columns[0].name, group.columns[-1].name
    return first if first == last else f"{first}\n-{last}"


def _print_block(matrix: Matrix, block: Sequence[Group], console: Console) -> None:
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    for label in _labels(matrix):
        table.add_column(label, justify="right" if label == "beta" else "left", no_wrap=True)
    for group in block:
        table.add_column(_heading(group), no_wrap=True)
    for asked in matrix.rows:
        cells = (Text(matrix.text(group, asked), style=_style(matrix, group, asked)) for group in block)
        table.add_row(*_values(matrix, asked), *cells)
    console.print(table)


def _style(matrix: Matrix, group: Group, asked: Asked) -> str:
    text = matrix.text(group, asked)
    if text in (ABSENT, NOT_JUDGED):
        return "dim"
    result = group.worst(asked)
    assert result is not None, "it has a text"
    return "bold red" if result.verdict.fails else "green"
