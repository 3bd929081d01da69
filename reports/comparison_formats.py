"""A comparison as text, as Markdown and as JSON: it reads like a release note."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from reports.comparison import PLACE, CellChange, Change, Comparison, Half
from reports.notation import compact, one_line
from reports.records import Verdict

FORMAT: Final = "lossgate-comparison/1"

_TOLD: Final = tuple(change for change in Change if change is not Change.CLEAN)


@dataclass(frozen=True)
class Item:
    """Some cells of a loss, and the lines that are said of all of them."""

    where: str
    what: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """What became of some cells, under one heading."""

    change: Change
    heading: str
    items: tuple[Item, ...]


def sections(comparison: Comparison) -> Iterator[Section]:
    """What became of the cells that are not clean on both sides; what matters most first."""
    for change in _TOLD:
        groups = _groups(comparison.of(change))
        if groups:
            items = tuple(Item(_where(cells), tuple(_what(cells))) for cells in groups)
            yield Section(change, _heading(change, comparison), items)


def text(comparison: Comparison) -> Iterator[str]:
    """Plain lines."""
    yield headline(comparison)
    for section in sections(comparison):
        yield ""
        yield section.heading
        for item in section.items:
            yield f"  {item.where}"
            for line in item.what:
                yield f"    {line}"
    yield ""
    yield from summary(comparison)


def markdown(comparison: Comparison) -> Iterator[str]:
    """The same as a Markdown section."""
    yield f"## {_safe(comparison.base)} to {_safe(comparison.head)}"
    yield ""
    for section in sections(comparison):
        yield f"### {_safe(section.heading)}"
        yield ""
        for item in section.items:
            yield f"* **{_safe(item.where)}**: {'; '.join(map(_safe, item.what))}"
        yield ""
    yield from map(_safe, summary(comparison))


def as_json(comparison: Comparison) -> str:
    """Every cell, with its two halves; numbers that are not finite are null."""
    cells = [
        {
            **dict(zip(PLACE, cell.place, strict=True)),
            "change": str(cell.change),
            "regression": cell.is_regression,
            "shared": cell.shared,
            "other_conventions": cell.other_conventions,
            "base": _numbers(cell.base),
            "head": _numbers(cell.head),
        }
        for cell in comparison.cells
    ]
    data = {
        "format": FORMAT,
        "base": comparison.base,
        "head": comparison.head,
        "shared": comparison.shared,
        "regressions": len(comparison.regressions),
        "cells": cells,
    }
    return json.dumps(data, indent=2)


def headline(comparison: Comparison) -> str:
    """Both sides, and how much of them was compared."""
    return one_line(
        f"{comparison.base} -> {comparison.head}: {_count(len(comparison.cells), 'cell')}, "
        f"{_count(comparison.shared, 'case')} that both sides have"
    )


def _numbers(half: Half) -> dict[str, Any]:
    worst = half.worst if math.isfinite(half.worst) else None
    return {**asdict(half), "worst": worst}


def summary(comparison: Comparison) -> Iterator[str]:
    """What there is to say at the end, a sentence a line."""
    clean = len(comparison.of(Change.CLEAN))
    yield f"Clean on both sides: {_count(clean, 'cell')}."
    moved = sum(cell.other_conventions for cell in comparison.cells)
    if moved:
        yield f"The two sides declare other conventions: {moved:,} cases are one batch judged under each one's."
    regressions = comparison.regressions
    if regressions:
        worse = "does" if len(regressions) == 1 else "do"
        yield one_line(f"Regression: {_count(len(regressions), 'cell')} {worse} worse in {comparison.head}.")
    else:
        yield "No regression."


def _heading(change: Change, comparison: Comparison) -> str:
    return one_line(change.about.format(base=comparison.base, head=comparison.head))


def _groups(cells: Sequence[CellChange]) -> list[list[CellChange]]:
    """Cells of one loss of which the same is said."""
    groups: dict[tuple[str, ...], list[CellChange]] = {}
    for cell in cells:
        key = (str(cell.place[PLACE.index("loss_type")]), cell.base.signature, cell.head.signature)
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


def _where(cells: Sequence[CellChange]) -> str:
    def values(column: str, told: Callable[[Any], str] = str) -> str:
        found = dict.fromkeys(cell.place[PLACE.index(column)] for cell in cells)
        return ", ".join(told(value) for value in (sorted(found) if column == "beta" else found))

    beta = values("beta", lambda beta: f"{beta:g}")
    devices = values("device")
    place = "" if devices == "cpu" else f"; {devices}"
    return one_line(f"{values('loss_type')} {values('level')}, beta {beta}, {values('dtype')}{place}")


def _what(cells: Sequence[CellChange]) -> Iterator[str]:
    first = cells[0]
    if first.change in (Change.ONLY_BASE, Change.ONLY_HEAD):
        halves = [cell.base if first.change is Change.ONLY_BASE else cell.head for cell in cells]
        yield _told(halves) if any(half.failing for half in halves) else "nothing diverges"
        return
    base, head = [cell.base for cell in cells], [cell.head for cell in cells]
    shared = sum(cell.shared for cell in cells)
    if first.change is Change.NEW:
        yield f"now {_told(head, shared)}"
    elif first.change is Change.FIXED:
        yield f"was {_told(base, shared)}"
    elif first.change is Change.SAME:
        yield _told(head, shared)
    else:
        yield f"was {_told(base, shared)}"
        yield f"now {_told(head, shared)}"


def _told(halves: Sequence[Half], shared: int = 0) -> str:
    failing = sum(half.failing for half in halves)
    of = f"{failing:,} of {shared:,} cases" if shared else _count(failing, "case")
    worst = max((half.worst for half in halves if not math.isnan(half.worst)), default=math.nan)
    size = "" if math.isnan(worst) else f", error / bound up to {compact(worst)}"
    words = halves[0].signature or ", ".join(dict.fromkeys(half.verdict for half in halves))
    if all(half.verdict == Verdict.KNOWN.value for half in halves):
        words = f"as expected: {halves[0].signature}" if halves[0].signature else "an expected one"
    return one_line(f"{words} ({of}{size})")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _safe(line: str) -> str:
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in line)
