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
from harness.judge import Judgement, agree, bits_equal, judge
from harness.remembered import expected
from oracles.batched.dispatch import expect
from oracles.expectation import Expectation
from reports.records import Cell, Record, Verdict

REPEAT_EVERY: Final = 16
AHEAD: Final = 4
"""Questions under way beside the one whose answer is waited for."""

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
    """Put one question to every target; the oracle works while they do."""
    yield from put_all([(question, contestants)])


def put_all(asked: Iterable[tuple[Question, Sequence[Contestant]]]) -> Iterator[CaseJudged]:
    """Put questions to targets; the next ones are sent ahead, so that no target waits while the oracle works."""
    under_way: deque[list[_Sent]] = deque()
    for question, contestants in asked:
        cases = [(one, one.under_conventions(question.case)) for one in contestants]
        while len(under_way) > AHEAD or (under_way and not _has_room(cases)):
            yield from map(_answered, under_way.popleft())
        under_way.append(
            [_Sent(one, replace(question, case=case), one.client.submit(case, one.device)) for one, case in cases]
        )
    for sents in under_way:
        yield from map(_answered, sents)


def _has_room(cases: Iterable[tuple[Contestant, Case]]) -> bool:
    return all(one.client.has_room(case) for one, case in cases)


class _Sent(NamedTuple):
    """A question that was put to a target, and the number by which its process knows it."""

    one: Contestant
    question: Question
    number: int


def _answered(sent: _Sent) -> CaseJudged:
    one, question, number = sent
    # Before the answer is waited for: the target works meanwhile.
    expectation = expected(question.case)
    outcome = one.client.receive(number)
    judgement = judge(question.case, expectation, outcome)
    same_bits = None
    repeated = judgement.verdict not in _NOT_REPEATED and (
        question.repeats or judgement.verdict is not Verdict.CONFORMS
    )
    if repeated:
        again = one.client.ask(question.case, one.device, attempt=1)
        judgement = _reconsidered(judgement, expectation, outcome, again)
        same_bits = bits_equal(outcome, again)
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
        repeated=repeated,
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
