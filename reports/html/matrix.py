"""A matrix as a page."""

from __future__ import annotations

from reports.columns import Asked
from reports.html.about import Outcome
from reports.html.page import rendered
from reports.matrix import Group, Matrix
from reports.matrix_formats import INCOMPLETE
from reports.records import Verdict


def render(matrix: Matrix) -> str:
    """The page of a matrix, complete or not."""
    return rendered(
        "matrix.html",
        outcome=_outcome(matrix),
        matrix=matrix,
        every=[Group((column,)) for column in matrix.columns],
        tone=_tone,
        note=_note,
    )


def _outcome(matrix: Matrix) -> Outcome:
    if not matrix.complete:
        return Outcome("?", "incomplete", "bad", INCOMPLETE)
    fails = any(one.verdict.fails for column in matrix.columns for one in column.results)
    if fails:
        return Outcome("✗", "not all conform", "bad", matrix.summary)
    return Outcome("✓", "nothing fails", "good", matrix.summary)


def _tone(group: Group, asked: Asked) -> str:
    result = group.worst(asked)
    if result is None or group.why_not:
        return "none"
    return "bad" if result.verdict.fails else "good" if result.verdict is Verdict.CONFORMS else "warn"


def _note(matrix: Matrix, group: Group, asked: Asked) -> int:
    """The number of the note of a cell; 0 where it has none."""
    result = None if group.why_not else group.worst(asked)
    numbers = (one.number for one in matrix.notes if result is not None and one.signature == result.signature)
    return next(numbers, 0)
