"""The run as SARIF 2.1.0: one result per cell that stops the gate, at the line where the target's loss begins.

A divergence that is known is a suppressed result with its reason. The fingerprints of a result are made of the
target as it was asked for, the cell and what is wrong there, so that it is the same one from run to run. A target
whose code is not known, such as a compiled operator, has a logical location only, which GitHub does not take.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

from reports.gate import Gate, Problem, Subject
from reports.records import Verdict

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
BASE: Final = "SRCROOT"

_RULES: Final = {
    Verdict.DIVERGES.value: ("Diverges", Verdict.DIVERGES.about),
    Verdict.NONDETERMINISTIC.value: ("Nondeterministic", Verdict.NONDETERMINISTIC.about),
    Verdict.ERROR.value: ("Raises", Verdict.ERROR.about),
    Verdict.CRASH.value: ("Crashes", Verdict.CRASH.about),
    Verdict.TIMEOUT.value: ("DoesNotAnswer", Verdict.TIMEOUT.about),
    Verdict.KNOWN.value: ("KnownDivergence", Verdict.KNOWN.about),
    "not-judged": ("NotJudged", "What the loss is told apart by was never compared, so there is no pass."),
    "incomplete": ("Incomplete", "The run did not come to its end, so there is no pass."),
    "expectation": ("StaleExpectation", "An expected divergence is no longer what the run found."),
    "failed": ("RunFailed", "The run failed for another reason than its cells."),
}
"""By id: the name of a rule and what it is about. A signature is a message: as a rule it would not last."""

_INDEX: Final = {name: number for number, name in enumerate(_RULES)}
# In a message, [text](link) is a link and {0} an argument.
_SPECIAL: Final = re.compile(r"[\[\]]")


def render(gate: Gate) -> str:
    """The gate as a SARIF log."""
    run = {
        "tool": {"driver": _driver(gate)},
        "automationDetails": {"id": f"lossgate/{quote(' '.join(one.word for one in gate.subjects))}/"},
        "invocations": [_invocation(gate)],
        **_bases(gate),
        "results": [*_problems(gate), *_entries(gate)],
        "properties": {
            name: gate.facts[name] for name in ("profile", "seed", "examples", "case_set") if name in gate.facts
        },
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, allow_nan=False) + "\n"


def _driver(gate: Gate) -> dict[str, Any]:
    return {
        "name": "lossgate",
        "version": str(gate.facts.get("lossgate", "unknown")),
        "rules": [
            {
                "id": rule,
                "name": name,
                "shortDescription": {"text": about},
                "fullDescription": {"text": about},
                "help": {"text": "lossgate explain CASE shows a stored case token by token, with the reason."},
                "defaultConfiguration": {"level": _level(rule)},
            }
            for rule, (name, about) in _RULES.items()
        ],
    }


def _level(rule: str) -> str:
    return "note" if rule == Verdict.KNOWN.value else "error"


def _invocation(gate: Gate) -> dict[str, Any]:
    invocation: dict[str, Any] = {
        "executionSuccessful": gate.complete,
        "toolExecutionNotifications": [
            {
                "level": "error",
                "message": {"text": _message(_sentence(problem))},
                "associatedRule": {"id": problem.kind, "index": _INDEX[problem.kind]},
            }
            for problem in gate.problems
        ]
        + [{"level": "warning", "message": {"text": _message(warning)}} for warning in gate.warnings],
    }
    if "exit_code" in gate.facts:
        invocation["exitCode"] = gate.facts["exit_code"]
    if "started" in gate.facts:
        invocation["startTimeUtc"] = str(gate.facts["started"]).replace("+00:00", "Z")
    return invocation


def _bases(gate: Gate) -> dict[str, Any]:
    if not any(subject.source is not None and subject.source.inside for subject in gate.subjects):
        return {}
    return {"originalUriBaseIds": {BASE: {"uri": f"{PurePath(gate.root).as_uri()}/"}}}


def _problems(gate: Gate) -> Iterator[dict[str, Any]]:
    for problem in gate.problems:
        # What is about the run as a whole is shown where the first loss is.
        subject = problem.subject or next(iter(gate.subjects), None)
        word = "" if problem.subject is None else problem.subject.word
        yield _result(problem.kind, _sentence(problem), subject, (word,))


def _entries(gate: Gate) -> Iterator[dict[str, Any]]:
    for entry in gate.entries:
        if not (entry.status.stops or entry.kind == Verdict.KNOWN.value):
            continue
        cell = f"{entry.subject} {entry.name}"
        text = f"{cell}: {entry.kind}: {entry.headline}"
        if entry.status.stops:
            text = "\n".join((text, *entry.details[1:]))
        result = _result(entry.kind, text, entry.subject, (entry.subject.word, entry.name, entry.headline))
        result["properties"] = {"cell": vars(entry.cell), "witness": entry.witness}
        if not entry.status.stops:
            result["suppressions"] = [{"kind": "external", "justification": entry.headline}]
        yield result


def _sentence(problem: Problem) -> str:
    return problem.sentence if problem.subject is None else f"{problem.subject}: {problem.sentence}"


def _result(rule: str, text: str, subject: Subject | None, same: tuple[str, ...]) -> dict[str, Any]:
    digest = hashlib.sha256("\n".join((rule, *same)).encode("utf-8", "backslashreplace")).hexdigest()
    return {
        "ruleId": rule,
        "ruleIndex": _INDEX[rule],
        "kind": "fail",
        "level": _level(rule),
        "message": {"text": _message(text)},
        "locations": [] if subject is None else [_location(subject)],
        # GitHub tells results at one line apart by the first of these alone.
        "partialFingerprints": {"primaryLocationLineHash": f"{digest[:16]}:1", "lossgateFinding/v1": digest},
    }


def _location(subject: Subject) -> dict[str, Any]:
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": subject.word}]}
    source = subject.source
    if source is None:
        return location
    artifact = (
        {"uri": quote(os.fsencode(source.file)), "uriBaseId": BASE}
        if source.inside
        else {"uri": PurePath(source.file).as_uri()}
    )
    return {**location, "physicalLocation": {"artifactLocation": artifact, "region": {"startLine": source.line}}}


def _message(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text).replace("{", "{{").replace("}", "}}")
