"""At the end of a run: what became of each entry that concerned it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

from harness.expectations.entry import CELL_KEYS, Expect, as_json
from harness.expectations.ledger import Covered, Ledger
from reports.expectations import Outcome
from reports.notation import compact
from reports.records import Cell


@dataclass(frozen=True)
class SettledCell:
    """A cell that an entry covers; `problem` says why it is not as expected, "" where it is."""

    covered: Covered
    problem: str

    def as_facts(self) -> dict[str, Any]:
        """The cell as JSON data."""
        return {
            **asdict(self.covered.cell),
            "cases": self.covered.cases,
            "worst": as_json(self.covered.worst),
            "found": self.covered.signature,
            "problem": self.problem,
        }


@dataclass(frozen=True)
class Settled:
    """One entry and what became of it; `message` is "" where it is as expected."""

    entry: Expect
    outcome: Outcome
    message: str
    cells: tuple[SettledCell, ...]
    fails: bool

    def as_facts(self) -> dict[str, Any]:
        """The entry as JSON data."""
        ratios = [one.covered.worst for one in self.cells if not math.isnan(one.covered.worst)]
        return {
            "expects": self.entry.as_facts(),
            "outcome": str(self.outcome),
            "fails": self.fails,
            "message": self.message,
            "cases": sum(one.covered.cases for one in self.cells),
            "worst": as_json(max(ratios, default=math.nan)),
            "cells": [one.as_facts() for one in self.cells],
        }


def settle(ledger: Ledger, judged: Mapping[Cell, Set[str]], today: date, strict: bool) -> list[Settled]:
    """The outcomes, in the order of the file, of entries about a cell that was judged.

    `judged` has the cells in which anything was compared, and the regions that were met there. With `strict`, an
    entry that needs attention, or has no reason, fails.
    """
    settled = (_settled(entry, ledger, judged, today, strict) for entry in ledger.entries)
    return sorted((one for one in settled if one is not None), key=lambda one: one.entry.number)


def _settled(
    entry: Expect, ledger: Ledger, judged: Mapping[Cell, Set[str]], today: date, strict: bool
) -> Settled | None:
    cells = tuple(SettledCell(covered, _problem(covered)) for covered in ledger.covered(entry))
    found = [
        *_unexpected(cells),
        *_stale(entry, ledger, judged),
        *_shrunk(entry, ledger, judged),
    ]
    concerned = bool(found or ledger.met(entry))
    if concerned and entry.expires is not None and entry.expires < today:
        found.append((Outcome.EXPIRED, f"expired on {entry.expires}: look whether it still holds"))
    if not concerned:
        return None
    outcome = min((outcome for outcome, _ in found), key=list(Outcome).index, default=Outcome.AS_EXPECTED)
    messages = [words for _, words in found]
    if not cells and ledger.met(entry):
        messages.append("an earlier entry covers all its cases")
    if entry.lacks_reason:
        messages.append("replace its reason, which is a placeholder")
    return Settled(
        entry=entry,
        outcome=outcome,
        message="; ".join(messages),
        cells=cells,
        fails=outcome.fails or (strict and (outcome.needs_attention or entry.lacks_reason)),
    )


def _problem(covered: Covered) -> str:
    entry = covered.entry
    if entry.signature and covered.signature != entry.signature:
        return f"expected {entry.signature!r}, found {covered.signature!r}"
    span = entry.span(covered.cell.dtype)
    if span is not None and covered.worst > span.high:
        return f"got worse: error / bound {compact(covered.worst)}, expected at most {compact(span.high)}"
    return ""


def _unexpected(cells: tuple[SettledCell, ...]) -> Iterator[tuple[Outcome, str]]:
    by_problem: dict[str, list[SettledCell]] = {}
    for one in cells:
        if one.problem:
            by_problem.setdefault(one.problem, []).append(one)
    for problem, alike in by_problem.items():
        outcome = Outcome.OTHER_SIGNATURE if problem.startswith("expected") else Outcome.WORSE
        yield outcome, f"{problem}, in {_some([one.covered.cell for one in alike])}"


def _stale(entry: Expect, ledger: Ledger, judged: Mapping[Cell, Set[str]]) -> Iterator[tuple[Outcome, str]]:
    if ledger.met(entry):
        return
    if any(not entry.region or entry.region in judged[cell] for cell in ledger.meant(entry, list(judged))):
        yield Outcome.MATCHED_NOTHING, "matched nothing: remove it"
    elif entry.version:
        unversioned = [one for one in ledger.subjects if one.is_called(entry.target) and not one.version]
        if unversioned:
            words = (
                f"matched nothing: {unversioned[0].label} says no version, and the entry is for {entry.version}"
            )
            yield Outcome.MATCHED_NOTHING, words


def _shrunk(entry: Expect, ledger: Ledger, judged: Mapping[Cell, Set[str]]) -> Iterator[tuple[Outcome, str]]:
    below = [covered for covered in ledger.covered(entry) if _is_below(covered)]
    if below:
        least = min(below, key=lambda covered: covered.worst)
        span = entry.span(least.cell.dtype)
        assert span is not None, "what is below a range has one"
        words = f"error / bound {compact(least.worst)} in {least.cell}, expected at least {compact(span.low)}"
        yield Outcome.SHRANK, words
    met = ledger.met(entry)
    meant = ledger.meant(entry, [cell for cell, regions in judged.items() if entry.region in ("", *regions)])
    for key in CELL_KEYS if met else ():
        for value in getattr(entry, key):
            there = {cell for cell in meant if getattr(cell, key) == value}
            if there and not there & met:
                text = f"{value:g}" if key == "beta" else value
                yield Outcome.SHRANK, f"nothing diverges with {key} {text} any more: take that out"


def _is_below(covered: Covered) -> bool:
    span = covered.entry.span(covered.cell.dtype)
    return span is not None and covered.worst < span.low


def _some(cells: list[Cell]) -> str:
    return str(cells[0]) if len(cells) == 1 else f"{cells[0]} and {len(cells) - 1} more"
