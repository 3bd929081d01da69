"""The head of a report: how the run ended, in one sentence, and what was tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from reports import facts as told
from reports.facts import INCOMPLETE, Facts
from reports.gate import Gate, Subject
from reports.notation import one_line
from reports.records import Verdict
from reports.table import summary


@dataclass(frozen=True)
class Outcome:
    """`sign` and `word` say whether the run is a pass, `sentence` why; `tone` is "bad", "warn" or "good"."""

    sign: str
    word: str
    tone: str
    sentence: str


@dataclass(frozen=True)
class Tested:
    """One target: its label, a sentence on its cells, its versions with the strength of its cases, the rest."""

    label: str
    sentence: str
    is_bad: bool
    brief: str
    facts: tuple[tuple[str, str], ...]


_RUN: Final = {"dtypes": "dtypes", "device": "device"}


def outcome(gate: Gate) -> Outcome:
    """How the run ended."""
    cells = _count(len(gate.entries), "cell")
    if not gate.complete:
        return Outcome("?", "incomplete", "bad", INCOMPLETE)
    if gate.stopping:
        return Outcome("✗", "fails", "bad", f"{len(gate.stopping):,} of {cells} {_verb(len(gate.stopping))}")
    if gate.problems:
        return Outcome("✗", "fails", "bad", "no cell fails, but the run is no pass")
    kinds = [entry.kind for entry in gate.entries]
    aside = [
        f"{kinds.count(verdict):,} {verdict}"
        for verdict in (Verdict.KNOWN.value, Verdict.OVERFLOW.value, Verdict.UNSUPPORTED.value)
        if verdict in kinds
    ]
    also = f" ({', '.join(aside)})" if aside else ""
    return Outcome("✓", "passes", "good", f"nothing in {cells} diverges{also}")


def settings(facts: Facts) -> list[tuple[str, str]]:
    """Name and text of what holds for the whole run."""
    asked = [(name, _text(facts[key])) for key, name in _RUN.items() if facts.get(key)]
    return [(name, one_line(text)) for name, text in (*asked, *told.headline(facts))]


def tested(gate: Gate) -> list[Tested]:
    """The targets, those that were not judged, too."""
    facts = gate.facts
    sentences = {one.target: one for one in summary(gate.table)}
    versions = {one.label: one for one in told.targets(facts)}
    found = []
    for subject in gate.subjects:
        about: Mapping[str, Any] = facts.get("targets", {}).get(subject.label, {})
        own = versions.get(subject.label)
        judged = sentences.get(subject.label)
        sentence = judged.sentence if judged else f"{subject}: nothing was judged"
        brief = [
            ", ".join(
                f"{name} {version}" for name, version in about.get("versions", {}).items() if name != "from"
            ),
            *(
                f"{name} {about[name]}"
                for name in ("torch", "python")
                if name in about and name not in about.get("versions", {})
            ),
            told.strength_summary(facts, subject.label),
        ]
        lines = {
            "asked for as": subject.word if subject.word != str(subject) else "",
            "found in": str(about.get("versions", {}).get("from", "")),
            "its loss": _source(subject),
            "replaced": own.replaced if own else "",
            "judged under": told.conventions_summary(facts, subject.label),
            "not supported": told.not_supported(facts, subject.label).removeprefix("not supported: "),
            "padding": "; ".join(told.padding_lines(facts, subject.label)),
        }
        found.append(
            Tested(
                label=str(subject),
                sentence=one_line(sentence if gate.complete else f"so far, {sentence}"),
                is_bad=judged is None or judged.verdict.fails,
                brief=one_line("; ".join(filter(None, brief))),
                facts=tuple((name, one_line(text)) for name, text in lines.items() if text),
            )
        )
    return found


def _verb(number: int) -> str:
    return "fails" if number == 1 else "fail"


def _source(subject: Subject) -> str:
    return "" if subject.source is None else str(subject.source)


def _text(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return ", ".join(f"{one:g}" if isinstance(one, float) else str(one) for one in value)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
