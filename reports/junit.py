"""The run as JUnit XML: one suite a target, one test a cell, for GitLab, Jenkins and GitHub's reporters.

What is valid by the schema of Apache Ant's reports is valid by the one of Jenkins too, and everything reads it, so
that is what is written: a test has no output and no place in a file of its own. What is expected to diverge is
skipped with its reason, as pytest writes what is expected to fail: Jenkins shows the attribute `message`, GitLab
the text. A test's class is the target as it was asked for, without its version, so that its history goes on when
the version changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree import ElementTree as ET

from reports.facts import (
    conventions_summary,
    headline,
    not_supported,
    padding_lines,
    strength_summary,
    targets,
)
from reports.gate import Entry, Gate, Problem, Status, Subject
from reports.notation import one_line, visible
from reports.records import Verdict
from reports.table import summary

RUN_SUITE: Final = "lossgate run"

_ELEMENTS: Final = {Status.FAILED: "failure", Status.ERROR: "error", Status.SKIPPED: "skipped"}
_NEVER: Final = "1970-01-01T00:00:00"


def render(gate: Gate) -> str:
    """The gate as an XML document."""
    root = ET.Element("testsuites")
    of_run = [problem for problem in gate.problems if problem.subject is None]
    if of_run or gate.warnings:
        _suite(root, gate, None, of_run, ())
    for subject in gate.subjects:
        _suite(root, gate, subject, [one for one in gate.problems if one.subject == subject], gate.of(subject))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(
    root: ET.Element,
    gate: Gate,
    subject: Subject | None,
    problems: Sequence[Problem],
    entries: Sequence[Entry],
) -> None:
    suite = ET.SubElement(root, "testsuite")
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(gate, subject):
        ET.SubElement(properties, "property", name=name, value=one_line(value))
    word = RUN_SUITE if subject is None else subject.word
    for problem in problems:
        test = _test(suite, word, _QUESTIONS[problem.kind], 0.0)
        _mark(test, Status.ERROR, problem.kind, problem.sentence, problem.sentence)
    for entry in entries:
        test = _test(suite, word, entry.name, entry.seconds)
        if entry.status is not Status.PASSED:
            _mark(test, entry.status, entry.kind, entry.headline, "\n".join(entry.details) or entry.headline)
    ET.SubElement(suite, "system-out").text = "\n".join(map(visible, _about(gate, subject, entries)))
    ET.SubElement(suite, "system-err").text = "\n".join(problem.sentence for problem in problems)
    suite.attrib.update(
        {
            "name": RUN_SUITE if subject is None else str(subject),
            "id": str(len(root) - 1),
            "package": "lossgate",
            "timestamp": _timestamp(gate),
            "hostname": "localhost",
            "tests": str(len(suite.findall("testcase"))),
            "failures": str(len(suite.findall("testcase/failure"))),
            "errors": str(len(suite.findall("testcase/error"))),
            "skipped": str(len(suite.findall("testcase/skipped"))),
            "time": f"{sum(entry.seconds for entry in entries):.3f}",
        }
    )


_QUESTIONS: Final = {
    "incomplete": "the run came to its end",
    "not-judged": "something was compared",
    "expectation": "expectations hold",
    "failed": "the run passed",
}
"""What a test that is about no cell asks."""


def _test(suite: ET.Element, word: str, name: str, seconds: float) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=word, name=name, time=f"{seconds:.3f}")


def _mark(test: ET.Element, status: Status, kind: str, message: str, text: str) -> None:
    ET.SubElement(test, _ELEMENTS[status], type=kind, message=one_line(message)).text = text


def _properties(gate: Gate, subject: Subject | None) -> Iterator[tuple[str, str]]:
    yield from headline(gate.facts)
    if subject is None:
        return
    for target in targets(gate.facts):
        if target.label == subject.label:
            yield "target", target.label
            yield "target versions", target.versions
            yield "replaced", target.replaced
            yield "conventions", target.conventions
    if subject.source is not None:
        yield "source", str(subject.source)


def _about(gate: Gate, subject: Subject | None, entries: Sequence[Entry]) -> Iterator[str]:
    if subject is None:
        yield from gate.warnings
        return
    for target in summary(gate.table):
        if target.target == subject.label:
            yield target.sentence if gate.complete else f"so far, {target.sentence}"
    yield from padding_lines(gate.facts, subject.label)
    for told in (not_supported, conventions_summary, strength_summary):
        sentence = told(gate.facts, subject.label)
        if sentence:
            yield sentence
    for entry in entries:
        if entry.kind == Verdict.OVERFLOW.value:
            yield f"overflow in {entry.name}: {entry.headline}"


def _timestamp(gate: Gate) -> str:
    """The start, UTC, without the time zone that the format has no place for."""
    return str(gate.facts.get("started", _NEVER))[: len(_NEVER)]
