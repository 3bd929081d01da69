"""One case put to the targets: submitted, judged, repeated where that is due, and recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from cases.case import Case
from cases.conventions import Conventions, PaddingPromise
from cases.dtypes import DType
from cases.spec import Level, LossSpec, LossType
from harness.client import Outcome, TargetFacts, WorkerClient
from harness.events import CaseJudged
from harness.expectations.entry import NOTHING_EXPECTED, Expectations
from harness.foresight import foresee
from harness.judge import Judgement, agree, bits_equal, judge
from oracles.batched.dispatch import expect
from oracles.expectation import Expectation
from reports.records import Cell, Record, Verdict

REPEAT_EVERY: Final = 16
AHEAD: Final = 1024
"""Questions that are put before the first of them is judged."""

SURFACE: Final = "logps"

_NOT_REPEATED: Final = (Verdict.UNSUPPORTED, Verdict.CRASH, Verdict.TIMEOUT)


@dataclass(frozen=True)
class Contestant:
    """A target that answered: its process, what it says of itself, where it computes, what is expected of it."""

    client: WorkerClient
    facts: TargetFacts
    device: str
    expect: Expectations = NOTHING_EXPECTED
    strict: bool = False

    def conventions(self, spec: LossSpec) -> Conventions:
        """What it is judged by: the conventions it declares for a loss, or the bare formula's."""
        return Conventions() if self.strict else self.facts.conventions_for(spec)

    @property
    def promises(self) -> tuple[PaddingPromise, ...]:
        """The lines of padding hygiene that it must pass."""
        return tuple(PaddingPromise) if self.strict else (PaddingPromise.FINITE, *self.facts.conventions.padding)

    def under_conventions(self, case: Case) -> Case:
        """The case under the conventions that the target is judged by."""
        conventions = self.conventions(case.spec)
        if case.spec.conventions == conventions:
            return case
        return replace(case, spec=_under(case.spec, conventions))

    def takes(self, loss_type: LossType, level: Level, dtype: DType) -> bool:
        """Whether the target says that it has a loss at a level in a dtype."""
        supports = self.facts.supports
        return loss_type in supports.loss_types and level in supports.levels and dtype.name in supports.dtypes

    def cell(self, case: Case) -> Cell:
        """The row of the table that a case belongs to."""
        return Cell(
            target=self.facts.label,
            surface=SURFACE,
            loss_type=str(case.spec.loss_type),
            level=str(case.spec.importance_sampling_level),
            beta=case.spec.beta,
            dtype=case.batch.dtype.name,
            device=self.device,
        )

    def judged(self, case: Case) -> Judgement:
        """Put a case and judge the answer, once, whatever is expected."""
        return judge(case, expect(case), self.client.ask(case, self.device))

    def as_expected(self, judgement: Judgement, cell: Cell, regions: tuple[str, ...]) -> Judgement:
        """The judgement of a case in a cell and some regions: `known` where an entry covers what diverges."""
        entry = self.expect.find(cell, regions) if judgement.verdict is Verdict.DIVERGES else None
        if entry is None:
            return judgement
        # The reason comes first, alike for all its cases; what was seen follows.
        return replace(judgement, verdict=Verdict.KNOWN, message=f"{entry.reason}\n{judgement.message}")


@lru_cache(maxsize=4096)
def _under(spec: LossSpec, conventions: Conventions) -> LossSpec:
    return replace(spec, conventions=conventions)


@dataclass(frozen=True)
class Question:
    """A case to put, the regions it is in, the number of its description in the run, and the phase."""

    case: Case
    regions: tuple[str, ...]
    description: int
    phase: str

    @property
    def repeats(self) -> bool:
        """Whether the case is put twice even if the answer conforms."""
        return self.description % REPEAT_EVERY == 0


def put(question: Question, contestants: Sequence[Contestant]) -> Iterator[CaseJudged]:
    """Put one question to every target."""
    yield from put_all([(question, contestants)])


def put_all(asked: Iterable[tuple[Question, Sequence[Contestant]]]) -> Iterator[CaseJudged]:
    """Put questions to targets; the next ones are sent ahead, so that no target waits while we work.

    What is put twice is sent again behind those, and what comes after it waits to be told until it is answered.
    """
    under_way: deque[list[_Sent]] = deque()
    answered: deque[_Answered] = deque()
    for foreseen in foresee(map(_own_cases, asked)):
        while len(under_way) > AHEAD or (under_way and not _has_room(foreseen)):
            answered.extend(map(_answered, under_way.popleft()))
            yield from _told(answered)
        under_way.append(
            [
                _Sent(one, replace(question, case=case), expectation, one.client.submit(case, one.device))
                for case, (one, question), expectation in foreseen
            ]
        )
    while under_way:
        answered.extend(map(_answered, under_way.popleft()))
        yield from _told(answered)
    yield from map(_recorded, answered)


def _told(answered: deque[_Answered]) -> Iterator[CaseJudged]:
    """The first of the answered that need not wait for another answer."""
    while answered and (answered[0].is_complete or len(answered) > AHEAD):
        yield _recorded(answered.popleft())


_Put = tuple[Contestant, Question]


def _own_cases(asked: tuple[Question, Sequence[Contestant]]) -> list[tuple[Case, _Put]]:
    """A question as each target gets it: under its own conventions."""
    question, contestants = asked
    return [(one.under_conventions(question.case), (one, question)) for one in contestants]


def _has_room(foreseen: Iterable[tuple[Case, _Put, Expectation]]) -> bool:
    return all(one.client.has_room(case) for case, (one, _), _ in foreseen)


class _Sent(NamedTuple):
    """A question that was put to a target, what is expected, and the number by which its process knows it."""

    one: Contestant
    question: Question
    expectation: Expectation
    number: int


class _Answered(NamedTuple):
    """A question with its answer, judged, and the number under which it was sent again, if it was."""

    sent: _Sent
    outcome: Outcome
    judgement: Judgement
    again: int | None

    @property
    def is_complete(self) -> bool:
        """Whether no other answer is waited for."""
        return self.again is None or self.sent.one.client.has_answer(self.again)


def _answered(sent: _Sent) -> _Answered:
    one, question, expectation, number = sent
    outcome = one.client.receive(number)
    judgement = judge(question.case, expectation, outcome)
    repeated = judgement.verdict not in _NOT_REPEATED and (
        question.repeats or judgement.verdict is not Verdict.CONFORMS
    )
    again = one.client.submit(question.case, one.device, attempt=1) if repeated else None
    return _Answered(sent, outcome, judgement, again)


def _recorded(answered: _Answered) -> CaseJudged:
    (one, question, expectation, _), outcome, judgement, again = answered
    same_bits = None
    if again is not None:
        second = one.client.receive(again)
        judgement = _reconsidered(judgement, expectation, outcome, second)
        same_bits = bits_equal(outcome, second)
    cell = one.cell(question.case)
    judgement = one.as_expected(judgement, cell, question.regions)
    row, column = judgement.gradient_at or (None, None)
    record = Record(
        cell=cell,
        case_id=question.case.id,
        description=question.description,
        phase=question.phase,
        rows=question.case.batch.rows,
        columns=question.case.batch.columns,
        tokens=question.case.batch.tokens,
        regions=question.regions,
        verdict=judgement.verdict,
        loss=judgement.loss,
        gradient=judgement.gradient,
        gradient_row=row,
        gradient_column=column,
        message=judgement.message,
        repeated=again is not None,
        bits_equal=same_bits,
    )
    return CaseJudged(record, question.case, outcome.seconds)


def _reconsidered(judgement: Judgement, expectation: Expectation, first: Outcome, again: Outcome) -> Judgement:
    if agree(expectation, first, again):
        return judgement
    words = "two answers to the same case differ by more than rounding allows"
    if first.status != again.status:
        words = f"the same case ended as {first.status}, then as {again.status}"
    if judgement.message:
        words += f"; at first: {judgement.message}"
    return replace(judgement, verdict=Verdict.NONDETERMINISTIC, message=words)
