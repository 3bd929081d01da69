"""What became of the divergences that a run expected, as its record tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pandas as pd

from reports.facts import Facts
from reports.notation import compact
from reports.records import Verdict, worst
from reports.schema import CELL_COLUMNS
from reports.table import VERDICTS


class Outcome(StrEnum):
    """What became of one entry; worst first."""

    OTHER_SIGNATURE = "other signature"
    WORSE = "worse"
    MATCHED_NOTHING = "matched nothing"
    SHRANK = "shrank"
    EXPIRED = "expired"
    AS_EXPECTED = "as expected"

    @property
    def fails(self) -> bool:
        """Whether a target does something that nobody expected, so that a gate must not pass."""
        return self in (Outcome.OTHER_SIGNATURE, Outcome.WORSE)

    @property
    def needs_attention(self) -> bool:
        """Whether the entry no longer says what is so: it is reported, and fails a strict gate."""
        return self is not Outcome.AS_EXPECTED


@dataclass(frozen=True)
class Expected:
    """One entry and what became of it: what it expects, where it stands, why, and how often it was met."""

    outcome: Outcome
    fails: bool
    what: str
    where: str
    reason: str
    message: str
    cells: int
    cases: int
    worst: float

    @property
    def extent(self) -> str:
        """How far it was met, such as "2 cells, 41 cases, up to 3e8 times the bound", or ""."""
        if not self.cases:
            return ""
        size = f", up to {compact(self.worst)} times the bound" if self.worst > 0 else ""
        return f"{_count(self.cells, 'cell')}, {_count(self.cases, 'case')}{size}"


def expected(facts: Facts) -> list[Expected]:
    """The entries that concerned the run, in the order of their file; those that fail first."""
    entries = [_entry(record, str(facts.get("config", ""))) for record in facts.get("expectations", [])]
    return sorted(entries, key=lambda entry: not entry.fails)


def headline(entries: list[Expected]) -> str:
    """How many entries ended how, in one line."""
    counts = Counter(entry.outcome for entry in entries)
    return "expectations: " + ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])


def as_judged(table: pd.DataFrame, facts: Facts) -> pd.DataFrame:
    """The table of a run with its unexpected cells counted as diverging.

    A row says `known` as soon as an entry covers its case; only the end of the run shows whether the cell is as
    the entry says. Where it is not, its known cases diverge.
    """
    problems = dict(_problems(facts))
    if not problems:
        return table
    table = table.copy()
    for number, row in zip(table.index, table.to_dict("records"), strict=True):
        problem = problems.get(tuple(row[column] for column in CELL_COLUMNS))
        if problem and row[Verdict.KNOWN.value]:
            counts = {verdict: row[verdict] for verdict in VERDICTS}
            counts[Verdict.DIVERGES.value] += counts.pop(Verdict.KNOWN.value)
            now = worst(Verdict(verdict) for verdict, count in counts.items() if count)
            table.loc[number, [*counts, Verdict.KNOWN.value]] = [*counts.values(), 0]
            table.loc[number, ["verdict", "message"]] = [now.value, problem]
    return table


def _problems(facts: Facts) -> Iterator[tuple[tuple[Any, ...], str]]:
    for record in facts.get("expectations", []):
        for cell in record["cells"]:
            if cell["problem"]:
                yield tuple(cell[column] for column in CELL_COLUMNS), str(cell["problem"])


def _entry(record: Mapping[str, Any], file: str) -> Expected:
    entry = record["expects"]
    return Expected(
        outcome=Outcome(record["outcome"]),
        fails=record["fails"],
        what=" ".join(_pattern(entry)),
        where=f"{file}, line {entry['line']}",
        reason=entry["reason"] + (f" ({entry['link']})" if "link" in entry else ""),
        message=record["message"],
        cells=sum(bool(cell["cases"]) for cell in record["cells"]),
        cases=record["cases"],
        worst=float("nan") if record["worst"] is None else float(record["worst"]),
    )


_PATTERN: Final = ("loss_type", "level", "beta", "dtype")


def _pattern(entry: Mapping[str, Any]) -> Iterator[str]:
    yield entry["target"] + entry.get("version", "")
    for key in _PATTERN:
        if key in entry:
            values = ",".join(f"{value:g}" if key == "beta" else value for value in entry[key])
            yield f"beta {values}" if key == "beta" else values
    if "region" in entry:
        yield f"in {entry['region']}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
