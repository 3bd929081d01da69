"""What a signature is read off: cases of one cell with the answers that a target gave to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from cases.case import Case
from harness.judge import Judgement, judge
from harness.outcome import Outcome
from oracles.batched.dispatch import expect
from oracles.expectation import Expectation
from oracles.scalar import Scalar
from reports.records import Cell, Verdict

MOST_TELLING = 3
_RIGHT = (Verdict.CONFORMS, Verdict.OVERFLOW)


@dataclass(frozen=True, eq=False)
class Answered:
    """A case and the answer to it."""

    case: Case
    outcome: Outcome

    @cached_property
    def expectation(self) -> Expectation:
        return expect(self.case)

    @cached_property
    def judgement(self) -> Judgement:
        return judge(self.case, self.expectation, self.outcome)

    @property
    def is_number(self) -> bool:
        """Whether there is a loss and a gradient, finite or not."""
        return self.outcome.status == "ok"

    @property
    def is_right(self) -> bool:
        """Whether the answer is what was asked for, as far as the dtype can hold it."""
        return self.judgement.verdict in _RIGHT

    def loses(self, loss: Scalar, overflows: bool) -> bool:
        """Whether the loss may be another one, within twice its bound: quick, before a gradient is formed."""
        answer = self.outcome.loss
        return answer is not None and (overflows or abs(answer - float(loss.value)) <= 2.0 * loss.radius)

    def explained_by(self, expectation: Expectation, case: Case | None = None) -> bool:
        """Whether the answer is what another expectation has, within its bound."""
        verdict = judge(case or self.case, expectation, self.outcome).verdict
        return verdict in _RIGHT


@dataclass(frozen=True)
class Where:
    """In how many judged cases of a cell, failing ones and all, a region of input space was met."""

    failing: Mapping[str, int]
    judged: Mapping[str, int]
    failing_cases: int
    judged_cases: int


@dataclass(frozen=True)
class Suspect:
    """A failing cell before it is explained: its verdict, cases that end so, and cases that conform.

    `expected` is what was said to be wrong there, "" where nothing was.
    """

    cell: Cell
    verdict: Verdict
    failing: tuple[Case, ...]
    conforming: tuple[Case, ...]
    where: Where
    expected: str = ""


@dataclass(frozen=True)
class Evidence:
    """Failing cases of a cell, a few that conform, and where in input space the failing ones lie."""

    failing: tuple[Answered, ...]
    conforming: tuple[Answered, ...]
    where: Where

    @property
    def numbers(self) -> Sequence[Answered]:
        """Failing cases that were answered with numbers."""
        return [one for one in self.failing if one.is_number]

    @property
    def telling(self) -> Sequence[Answered]:
        """The failing cases that tell most."""
        return self.numbers[:MOST_TELLING]

    def __iter__(self) -> Iterator[Answered]:
        yield from self.failing
        yield from self.conforming
