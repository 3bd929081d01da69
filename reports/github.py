"""The run for GitHub Actions: annotations at the losses that fail, and a job summary.

An annotation is a line that a job prints, `::error file=...,line=...::text`. GitHub shows at most ten errors of a
step, so that cells in which the same is wrong share one, and what is left is counted in the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from reports import markdown
from reports.facts import INCOMPLETE
from reports.gate import Entry, Gate, Source, Status
from reports.records import Verdict
from reports.table import summary

MOST: Final = 10
"""Errors of a step that GitHub shows."""

LARGEST_SUMMARY: Final = 2**20
"""Bytes of a step's summary that GitHub takes; all of a larger one is lost."""

_CELLS_NAMED: Final = 5
_ELSEWHERE: Final = "every cell: lossgate report RUN --format markdown"


def commands(gate: Gate) -> str:
    """Workflow commands, one a line, at most `MOST` errors and as many warnings; "" where there are none."""
    found = list(_commands(gate))
    if len(found) > MOST:
        rest = len(found) - MOST + 1
        found = [*found[: MOST - 1], _command(None, "lossgate", f"{rest} more findings: the job summary has all")]
    found += [f"::warning title=lossgate::{_data(warning)}" for warning in gate.warnings[:MOST]]
    return "".join(f"{command}\n" for command in found)


def job_summary(gate: Gate) -> str:
    """The run as Markdown of at most `LARGEST_SUMMARY` bytes: what matters first, every cell folded away below."""
    short = "\n".join(_summary(gate)) + "\n"
    whole = markdown.render(gate.table, gate.facts).replace("# lossgate report", "## Every cell", 1)
    folded = f"{short}\n<details>\n<summary>Every cell</summary>\n\n{whole}\n</details>\n"
    for text in (folded, f"{short}\n{_ELSEWHERE}\n"):
        if len(text.encode()) <= LARGEST_SUMMARY:
            return text
    kept = short.encode()[: LARGEST_SUMMARY - 200].decode(errors="ignore").rpartition("\n")[0]
    return f"{kept}\n\n**cut short here: GitHub takes no more**; {_ELSEWHERE}\n"


def _commands(gate: Gate) -> Iterator[str]:
    for problem in gate.problems:
        of = problem.subject
        title = "lossgate" if of is None else f"lossgate: {of}"
        yield _command(None if of is None else of.source, title, problem.sentence)
    for alike in _alike(gate.stopping):
        first = alike[0]
        lines = (f"{first.kind} in {_named(alike)}: {first.headline}", *first.details[1:])
        yield _command(first.subject.source, f"lossgate: {first.subject}", "\n".join(lines))


def _alike(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Cells of one target in which the same is wrong, together."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.subject.label, entry.kind, entry.headline), []).append(entry)
    return list(groups.values())


def _named(entries: Sequence[Entry]) -> str:
    names = ", ".join(entry.name for entry in entries[:_CELLS_NAMED])
    more = len(entries) - _CELLS_NAMED
    return f"{names} and {more} more cells" if more > 0 else names


def _command(source: Source | None, title: str, text: str) -> str:
    place = "" if source is None or not source.inside else f"file={_property(source.file)},line={source.line},"
    return f"::error {place}title={_property(title)}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _summary(gate: Gate) -> Iterator[str]:
    yield "# lossgate"
    yield ""
    if not gate.complete:
        yield "> [!CAUTION]"
        yield f"> **INCOMPLETE**: {INCOMPLETE}"
        yield ""
    for target in summary(gate.table):
        sentence = markdown.escape(target.sentence if gate.complete else f"so far, {target.sentence}")
        yield f"- **{sentence}**" if target.verdict.fails else f"- {sentence}"
    for problem in gate.problems:
        if problem.kind != "incomplete":
            about = "" if problem.subject is None else f"{problem.subject}: "
            yield f"- **{markdown.escape(about + problem.sentence)}**"
    for warning in gate.warnings:
        yield f"- {markdown.escape(warning)}"
    yield ""
    known = [entry for entry in gate.entries if entry.kind == Verdict.KNOWN.value and not entry.status.stops]
    yield from _grid("What stops the gate", gate.stopping)
    yield from _grid("Known divergences", known)


def _grid(title: str, entries: Sequence[Entry]) -> Iterator[str]:
    if not entries:
        return
    yield f"## {title}"
    yield ""
    yield "| target | cells | verdict | why | witness | loss |"
    yield "|---|---|---|---|---|---|"
    for alike in _alike(entries):
        first = alike[0]
        verdict = first.kind.upper() if first.status in (Status.FAILED, Status.ERROR) else first.kind
        source = "" if first.subject.source is None else str(first.subject.source)
        told = (first.subject.label, _named(alike), verdict, first.headline, first.witness, source)
        yield f"| {' | '.join(map(markdown.escape, told))} |"
    yield ""
