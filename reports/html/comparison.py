"""Comparisons as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reports.comparison import CellChange, Change, Comparison
from reports.comparison_formats import headline, sections, summary
from reports.html.about import Outcome
from reports.html.anchors import plain
from reports.html.page import rendered

_SIGNS: Final = {
    Change.NEW: "✗",
    Change.CHANGED: "≠",
    Change.WORSE: "▲",
    Change.FIXED: "✓",
    Change.BETTER: "▼",
    Change.SAME: "=",
    Change.CLEAN: "✓",
    Change.ONLY_BASE: "←",
    Change.ONLY_HEAD: "→",
}
_GOOD: Final = (Change.FIXED, Change.BETTER, Change.CLEAN)


def render(found: Sequence[Comparison]) -> str:
    """The page of one comparison or more, one a target."""
    return rendered(
        "comparison.html",
        outcome=_outcome(found),
        found=found,
        headline=headline,
        sections=sections,
        summary=summary,
        signs=_SIGNS,
        tone=_tone,
        anchor=_anchor,
        choices=_choices,
    )


def _outcome(found: Sequence[Comparison]) -> Outcome:
    worse = sum(len(one.regressions) for one in found)
    if worse:
        return Outcome("✗", "regression", "bad", f"{worse:,} {'cell does' if worse == 1 else 'cells do'} worse")
    if not any(one.shared for one in found):
        return Outcome("?", "not compared", "bad", "both sides have no case in common")
    return Outcome("✓", "no regression", "good", f"{sum(len(one.cells) for one in found):,} cells were compared")


def _anchor(comparison: Comparison, cell: CellChange) -> str:
    """The fragment of a cell, such as "trl-1.16.0-logps-grpo-token-beta-0-float32-cpu"."""
    surface, loss_type, level, beta, dtype, device = cell.place
    return plain(f"{comparison.head} {surface} {loss_type} {level} beta {beta:g} {dtype} {device}")


def _choices(found: Sequence[Comparison]) -> dict[str, list[str]]:
    """What rows are filtered by, and the values that there are."""
    cells = [cell for one in found for cell in one.cells]
    loss_types, dtypes = ([cell.place[at] for cell in cells] for at in (1, 4))
    return {
        "target": list(dict.fromkeys(one.head for one in found)),
        "loss_type": list(dict.fromkeys(loss_types)),
        "dtype": list(dict.fromkeys(dtypes)),
        "change": list(dict.fromkeys(str(cell.change) for cell in cells)),
    }


def _tone(cell: CellChange) -> str:
    return "bad" if cell.is_regression else "good" if cell.change in _GOOD else "warn"
