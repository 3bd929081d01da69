"""A run's gate, read off its rows and facts."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any, Final

import pandas as pd

from reports.expectations import Expected, as_judged, expected
from reports.facts import INCOMPLETE, Facts, corpus_case, findings, is_complete
from reports.gate import Entry, Gate, Problem, Source, Status, Subject
from reports.notation import compact, one_line, visible
from reports.records import Cell, Verdict
from reports.schema import CELL_COLUMNS, MEASURES
from reports.table import QUANTITIES, cell_table

Seconds = Mapping[tuple[Any, ...], float]

_STATUS: Final = {
    Verdict.CONFORMS: Status.PASSED,
    # All that can be compared is right.
    Verdict.OVERFLOW: Status.PASSED,
    Verdict.DIVERGES: Status.FAILED,
    Verdict.NONDETERMINISTIC: Status.FAILED,
    Verdict.ERROR: Status.ERROR,
    Verdict.CRASH: Status.ERROR,
    Verdict.TIMEOUT: Status.ERROR,
    # As a test that is expected to fail: a pass would hide it, and its reason.
    Verdict.KNOWN: Status.SKIPPED,
    Verdict.UNSUPPORTED: Status.SKIPPED,
}
_COMPARED: Final = (
    Verdict.CONFORMS,
    Verdict.DIVERGES,
    Verdict.KNOWN,
    Verdict.OVERFLOW,
    Verdict.NONDETERMINISTIC,
)


def gate_of(rows: pd.DataFrame, facts: Facts, path: Path | None = None, seconds: Seconds | None = None) -> Gate:
    """The gate of a run's rows and facts; `path` is where the run lies, for commands that name its cases.

    `seconds` a cell took, by its columns.
    """
    plain = cell_table(rows)
    table = as_judged(plain, facts)
    unexpected = table["message"] != plain["message"]
    root = str(facts.get("root", ""))
    words = _words(facts)
    labels = dict.fromkeys([*facts.get("targets", {}), *map(str, table["target"].unique())])
    subjects = {
        label: Subject(label, one_line(words.get(label, label)), _source(facts, label, root)) for label in labels
    }
    reader = _Reader(facts, path, seconds or {})
    entries = tuple(
        reader.entry(row, subjects[row["target"]], is_unexpected)
        for row, is_unexpected in zip(table.to_dict("records"), unexpected, strict=True)
    )
    problems = tuple(_problems(facts, table, subjects, entries))
    warnings = tuple(_words_on(one) for one in expected(facts) if one.outcome.needs_attention and not one.fails)
    return Gate(is_complete(facts), problems, warnings, tuple(subjects.values()), entries, table, facts, root)


def _words(facts: Facts) -> dict[str, str]:
    """The words that targets were asked for by, by their labels."""
    labels, words = list(facts.get("targets", {})), facts.get("requested", [])
    return dict(zip(labels, words, strict=True)) if len(labels) == len(words) else {}


def _source(facts: Facts, label: str, root: str) -> Source | None:
    told = facts.get("targets", {}).get(label, {}).get("source")
    if told is None:
        return None
    path = PurePath(told["file"])
    if root and path.is_relative_to(root):
        return Source(path.relative_to(root).as_posix(), told["line"], inside=True)
    return Source(path.as_posix(), told["line"], inside=False)


class _Reader:
    """Reads cells out of a table's rows."""

    def __init__(self, facts: Facts, path: Path | None, seconds: Seconds) -> None:
        self._facts = facts
        self._path = path
        self._seconds = seconds
        self._complete = is_complete(facts)
        self._signatures = findings(facts)

    def entry(self, row: Mapping[Any, Any], subject: Subject, is_unexpected: bool) -> Entry:
        key = tuple(row[column] for column in CELL_COLUMNS)
        cell, verdict = Cell(*key), Verdict(row["verdict"])
        status, kind = _STATUS[verdict], verdict.value
        headline = row["message"].split("\n")[0]
        # What is known has its reason there, and what is not as it was expected has the difference.
        if verdict is not Verdict.KNOWN and not is_unexpected:
            headline = self._signatures.get(key, headline)
        missed = self._facts.get("missing_regions", {}).get(str(cell), [])
        if not self._complete and status is Status.PASSED:
            status, headline = Status.SKIPPED, f"{verdict} so far: the run did not come to its end"
        elif self._complete and missed and not status.stops:
            status, kind, headline = Status.ERROR, "not-judged", f"never met {', '.join(missed)}"
        elif verdict is Verdict.CONFORMS:
            headline = ""
        headline = one_line(headline)
        details = tuple(map(visible, self._details(row, verdict, headline, subject))) if status.stops else ()
        seconds = self._seconds.get(key, 0.0)
        return Entry(subject, cell, status, kind, headline, details, row["witness"], seconds)

    def _details(self, row: Mapping[Any, Any], verdict: Verdict, headline: str, subject: Subject) -> Iterator[str]:
        if not verdict.fails:
            yield f"{headline}: cases in these regions are what its loss is told apart by, so it is no pass"
            return
        yield headline
        yield verdict.about
        failing = sum(row[one.value] for one in Verdict if one.fails)
        yield f"{failing} of {row['cases'] - row[Verdict.UNSUPPORTED.value]} cases fail"
        for quantity in QUANTITIES:
            absolute, ulps, ratio = (float(row[f"{quantity}_{measure}"]) for measure in MEASURES)
            if not math.isnan(ratio):
                numbers = f"error {compact(absolute)}, {compact(ulps)} ulps, error / bound {compact(ratio)}"
                yield f"{quantity}: largest {numbers} (above 1: not rounding)"
        if row["also"]:
            yield f"also: {row['also']}"
        named = corpus_case(self._facts, row["witness"])
        yield f"witness: case {row['witness']}{f', corpus case {named}' if named else ''}"
        # One that tells no more than the headline is not said twice.
        if one_line(row["message"]) != headline:
            yield from (f"  {line}" for line in row["message"].splitlines())
        yield f"replay: {self._replay(row['witness'], subject)}"
        if subject.source is not None:
            yield f"the loss: {subject.source}"

    def _replay(self, case_id: str, subject: Subject) -> str:
        case = case_id if self._path is None else str(self._path / "cases" / f"{case_id}.json")
        return f"lossgate replay {shlex.quote(case)} {shlex.quote(subject.word)}"


def _problems(
    facts: Facts, table: pd.DataFrame, subjects: Mapping[str, Subject], entries: tuple[Entry, ...]
) -> Iterator[Problem]:
    if not is_complete(facts):
        yield Problem("incomplete", INCOMPLETE)
        return
    stops = any(entry.status.stops for entry in entries)
    for one in expected(facts):
        # Where a cell is not as expected, the cell itself says so.
        if one.fails and not one.outcome.fails:
            stops = True
            yield Problem("expectation", _words_on(one))
    for label, subject in subjects.items():
        cells = table[table["target"] == label]
        compared = sum(int(cells[verdict.value].sum()) for verdict in _COMPARED)
        if not compared and not any(entry.status.stops for entry in entries if entry.subject == subject):
            stops = True
            yield Problem("not-judged", "nothing of it was compared", subject)
    if facts.get("exit_code") not in (0, None) and not stops:
        yield Problem("failed", f"the run failed with exit code {facts['exit_code']}, though no cell fails")
    elif not entries and not stops:
        yield Problem("not-judged", "the run holds no rows")


def _words_on(entry: Expected) -> str:
    return one_line(f"expectation {entry.outcome}: {entry.what}: {entry.message} ({entry.where})")
