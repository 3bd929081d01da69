"""A bisection: the ends of a row of candidates first, then as few between them as it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.bisection.finding import NO_SUCH_CELL, Finding
from harness.bisection.search import Side, change
from harness.errors import UsageError
from harness.exit_codes import ExitCode
from reports.records import Verdict

Judge = Callable[[int], Finding]
"""Judges a candidate by its number in the row."""


@dataclass(frozen=True)
class Answer:
    """Where the cell changed: like `before` up to there, otherwise from `after` on.

    `skipped` are the candidates between the two, none of which could be judged; `judged` all that were asked, in
    the order of the row. `reason`, where there is no answer, is one sentence, with `advice`.
    """

    judged: tuple[Finding, ...]
    before: Finding | None = None
    after: Finding | None = None
    skipped: tuple[Finding, ...] = ()
    reason: str = ""
    advice: str = ""

    @property
    def count(self) -> int:
        """How many candidates were judged, without those that could not be."""
        return sum(not one.why_not for one in self.judged)

    @property
    def exit_code(self) -> ExitCode:
        """0 where a change was found, if only as a range."""
        return ExitCode.INCOMPARABLE if self.reason else ExitCode.CONFORMS


def bisected(size: int, judge: Judge, kind: str) -> Answer:
    """Find the change in a row of `size` candidates; `kind` is "release" or "commit".

    Raises `UsageError` when there are fewer than two.
    """
    if size < 2:
        raise UsageError(f"there is one {kind} only in this range: nothing can have changed in it")
    search = _Search(size, judge)
    first, last = search.finding(0), search.finding(size - 1)
    refusal = _refusal(first, last, kind)
    try:
        found = change(size, search.side) if refusal is None else None
    except _MovingError as moving:
        found, refusal = None, _nondeterministic(moving.finding)
    judged = tuple(finding for _, finding in sorted(search.judged.items()))
    if found is None:
        assert refusal is not None
        return Answer(judged, reason=refusal[0], advice=refusal[1])
    return Answer(
        judged,
        before=search.judged[found.before],
        after=search.judged[found.after],
        skipped=tuple(search.judged[number] for number in found.skipped),
    )


class _MovingError(Exception):
    """A candidate between the ends is nondeterministic."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.name)
        self.finding = finding


class _Search:
    """What is known so far of a row of candidates, by their numbers."""

    def __init__(self, size: int, judge: Judge) -> None:
        self._last = size - 1
        self._judge = judge
        self.judged: dict[int, Finding] = {}

    def finding(self, number: int) -> Finding:
        if number not in self.judged:
            self.judged[number] = self._judge(number)
        return self.judged[number]

    def side(self, number: int) -> Side:
        finding = self.finding(number)
        if finding.why_not:
            return Side.SKIPPED
        if _is_nondeterministic(finding):
            raise _MovingError(finding)
        first, last = self.judged[0], self.judged[self._last]
        # Between a clean end and one that fails it counts whether it fails, in whatever way.
        alike = finding.is_like(first) if first.fails == last.fails else finding.fails == first.fails
        return Side.FIRST if alike else Side.LAST


def _refusal(first: Finding, last: Finding, kind: str) -> tuple[str, str] | None:
    """Why the ends leave nothing to search between, and what to do."""
    for end in (first, last):
        if end.why_not:
            what = end.why_not if end.why_not == NO_SUCH_CELL else f"it cannot be judged: {end.why_not}"
            return f"{end.name} is no end to bisect from: {what}", f"take another {kind} as an end of the range"
        if _is_nondeterministic(end):
            return _nondeterministic(end)
    if not first.is_like(last):
        return None
    if not first.fails:
        return (
            f"{first.name} and {last.name} are both clean: there is no change between them to find",
            "another cell, or another end; lossgate matrix shows every release",
        )
    return (
        f"{first.name} and {last.name} are both {first.word}, in the same way: {first.signature}",
        f"begin with an older {kind}, or end with a newer one",
    )


def _is_nondeterministic(finding: Finding) -> bool:
    return finding.result is not None and finding.result.verdict is Verdict.NONDETERMINISTIC


def _nondeterministic(finding: Finding) -> tuple[str, str]:
    return (
        f"{finding.name} is nondeterministic in this cell: two answers to one case differ by more than rounding, "
        "so that no bisection of it can be trusted",
        finding.look_closer,
    )
