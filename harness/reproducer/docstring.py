"""The docstring of a script: what differs, in which version, by which formula, and how to run it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from cases.case import Case
from harness.provenance import version_of_lossgate
from harness.reproducer.finding import WAYS, Finding
from harness.reproducer.formula import formula, sources
from harness.reproducer.kind import Kind
from harness.reproducer.numbers import WIDTH
from oracles.space.names import variant_of
from reports.records import Verdict

LARGE: Final = 200
"""Positions of a case beyond which its size is said to be what it is."""

_NAMING: Final = ("trl", "liger", "unsloth")
"""Libraries whose own names of losses are those of a case."""

_EXITS: Final = {
    Verdict.ERROR: "Exit code: 1 while that is so, 0 once the answer is what the formula gives",
    Verdict.CRASH: "It dies while that is so; exit code: 0 once the answer is what the formula gives",
    Verdict.TIMEOUT: "It does not end while that is so; exit code: 0 once the answer is what the formula gives",
    Verdict.NONDETERMINISTIC: (
        "Exit code: 1 while answers differ by more than rounding can explain, 0 once they do not"
    ),
}
_EXIT: Final = "Exit code: 1 while they differ by more than rounding can explain, 0 once they do not"


def docstring(finding: Finding, kind: Kind) -> str:
    """The text between the quotes."""
    blocks = ["\n".join(block) for block in _blocks(finding, kind)]
    text = "\n\n".join(blocks) + "\n"
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _blocks(finding: Finding, kind: Kind) -> Iterator[list[str]]:
    case, label, loss_type = finding.case, finding.facts.label, finding.case.spec.loss_type
    named = f', loss_type="{loss_type}"' if finding.library in _NAMING else f" as {loss_type}"
    yield _wrapped(f"{label}{named}: {_what(finding)}.", first=WIDTH - 3)
    yield _wrapped(f"{_options(finding)}.{_reasons(finding)}")
    if case.batch.mask.size > LARGE:
        yield _wrapped(f"The case has {case.batch.mask.size} positions: no smaller one was found that shows it.")
    equations = list(formula(case))
    yield ["The formula, over completions i = 1..B and their unmasked tokens t:"]
    yield [f"    {line}" for line in equations]
    yield _wrapped(_where(equations))
    yield [
        *_wrapped(f"In words: {variant_of(case.spec).words}."),
        *_wrapped(f"Source: {'. '.join(sources(case.spec))}."),
    ]
    exits = _EXITS.get(finding.verdict, f"It prints what is expected and what comes. {_EXIT}")
    commands = [f"    {command}" for command in (kind.install, "python reproducer.py") if command]
    where = "" if kind.install else f" {kind.where or f'where {kind.what} is installed'}"
    yield [*_wrapped(f"To run it{where}:"), "", *commands]
    yield _wrapped(f"{exits}, 2 where something is not installed.")
    yield [
        *_wrapped(f"Seen with {_versions(finding)}."),
        *_wrapped(f"Written by lossgate {version_of_lossgate()}, case {case.id}."),
    ]


def _where(equations: list[str]) -> str:
    """What the letters of some equations are."""
    told = {
        "A_it": "A is advantages",
        "w_it": "w importance_ratio",
        "n_i": "n_i the tokens of a completion",
        "/N": "N those of all",
        "sg(": "sg() passes no gradient",
    }
    *first, last = [words for letters, words in told.items() if any(letters in line for line in equations)]
    return f"where {', '.join(first)} and {last}." if first else f"where {last}."


def _what(finding: Finding) -> str:
    message = _first_line(finding.message)
    match finding.verdict:
        case Verdict.ERROR:
            return f"it {message}"
        case Verdict.CRASH | Verdict.TIMEOUT:
            return f"its process {message}"
        case Verdict.NONDETERMINISTIC:
            return "answers to the same numbers differ from call to call"
        case _:
            return f"{WAYS[finding.off]} from the formula"


def _reasons(finding: Finding) -> str:
    if finding.verdict is Verdict.DIVERGES:
        return f" What differs: {_first_line(finding.reason)}. Seen: {_first_line(finding.message)}."
    if finding.verdict is Verdict.ERROR and finding.reason != _first_line(finding.message):
        return f" Found: {_first_line(finding.reason)}."
    return ""


def _options(finding: Finding) -> str:
    spec = finding.case.spec
    level = f"{str(spec.importance_sampling_level).capitalize()} level"
    place = [] if finding.device == "cpu" else [f"on {finding.device}"]
    return ", ".join([level, f"beta {spec.beta:g}", finding.case.batch.dtype.name, *place])


def size(case: Case) -> str:
    """How large a case is, in words."""
    rows, columns = case.batch.rows, case.batch.columns
    masked = case.batch.mask.size - case.batch.tokens
    where = "" if masked == 0 else f", {masked} of them masked"
    return f"{_counted(rows, 'completion')} of {_counted(columns, 'position')}{where}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")


def _versions(finding: Finding) -> str:
    facts = finding.facts
    versions = {name: version for name, version in facts.versions.items() if name != "from"}
    named = {**versions, "torch": facts.torch, "Python": facts.python}
    return ", ".join(f"{name} {version}" for name, version in named.items())


def _wrapped(text: str, first: int = WIDTH) -> list[str]:
    """A paragraph; its first line is shorter where quotes come before it."""
    indent = " " * (WIDTH - first)
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, break_long_words=False, break_on_hyphens=False)
    return [lines[0].removeprefix(indent), *lines[1:]]
