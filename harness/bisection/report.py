"""The answer of a bisection in words and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from harness.bisection.bisection import Answer
from harness.bisection.cell import CellWords
from harness.bisection.finding import Finding

FORMAT: Final = "lossgate-bisect/1"


def lines(answer: Answer, title: str, kind: str, size: int) -> Iterator[str]:
    """The answer in plain text, the candidates that were judged first."""
    yield f"{title}: {size} {kind}s, {answer.count} judged"
    width = max(len(one.name) for one in answer.judged)
    for one in answer.judged:
        yield f"  {one.name:<{width}}  {described(one)}"
    yield sentence(answer)
    for end in (answer.before, answer.after):
        if end is not None and end.fails:
            yield f"  {end.name}: {end.signature}"
            yield f"  look closer: {end.look_closer}"
    if answer.advice:
        yield f"  {answer.advice}"


def described(finding: Finding) -> str:
    """One candidate's state, and what is wrong there."""
    if finding.why_not:
        return f"skipped: {finding.why_not}"
    return f"{finding.word}: {finding.signature}" if finding.fails else finding.word


def sentence(answer: Answer) -> str:
    """Such as "last divergent 1.9.0, first clean 1.9.1"."""
    before, after = answer.before, answer.after
    if before is None or after is None:
        return f"no answer: {answer.reason}"
    if before.word == after.word:
        words = f"last {before.word} as at the beginning {before.name}, first {after.word} otherwise {after.name}"
    else:
        words = f"last {before.word} {before.name}, first {after.word} {after.name}"
    return words + _or_one_of(answer.skipped)


def _or_one_of(skipped: Sequence[Finding]) -> str:
    if not skipped:
        return ""
    names = ", ".join(one.name for one in skipped)
    which = "it" if len(skipped) == 1 else "one of these"
    return f"; the first may be {which}, which could not be judged: {names}"


def as_json(answer: Answer, name: str, text: str, cell: CellWords, kind: str, size: int) -> dict[str, Any]:
    """The answer as JSON data."""
    return {
        "format": FORMAT,
        "name": name,
        "range": text,
        "cell": str(cell),
        "kind": kind,
        "candidates": size,
        "answer": sentence(answer),
        "before": answer.before and answer.before.as_facts(),
        "after": answer.after and answer.after.as_facts(),
        "skipped": [one.name for one in answer.skipped],
        "reason": answer.reason,
        "judged": [one.as_facts() for one in answer.judged],
        "exit_code": int(answer.exit_code),
    }
