"""A matrix as a page."""

from __future__ import annotations

from collections.abc import Sequence

from reports.columns import Asked
from reports.html.about import Outcome
from reports.html.anchors import plain
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
        anchor=_anchor,
        verdicts=_verdicts,
        choices=_choices(matrix),
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


def _anchor(group: Group, asked: Asked) -> str:
    """The fragment of a cell, such as "1.9.1-1.9.2-luspo-token-beta-0-float32"."""
    return plain(f"{group.name} {asked}")


def _verdicts(groups: Sequence[Group], asked: Asked) -> list[str]:
    """The verdicts in one row of a table, each once."""
    found = (group.worst(asked) for group in groups if not group.why_not)
    return list(dict.fromkeys(str(one.verdict) for one in found if one is not None))


def _choices(matrix: Matrix) -> dict[str, list[str]]:
    """What rows are filtered by, and the values that there are."""
    verdicts = {str(one.verdict) for column in matrix.columns for one in column.results}
    return {
        "loss_type": list(dict.fromkeys(asked.loss_type for asked in matrix.rows)),
        "dtype": list(dict.fromkeys(asked.dtype for asked in matrix.rows)),
        "verdict": [str(verdict) for verdict in Verdict if str(verdict) in verdicts],
    }


def _note(matrix: Matrix, group: Group, asked: Asked) -> int:
    """The number of the note of a cell; 0 where it has none."""
    result = None if group.why_not else group.worst(asked)
    numbers = (one.number for one in matrix.notes if result is not None and one.signature == result.signature)
    return next(numbers, 0)
