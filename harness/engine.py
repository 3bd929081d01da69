"""The run: every scheduled description, judged in every cell, as a stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final

from cases.case import Case
from cases.conventions import Conventions
from cases.regions import regions_of
from harness.asking import Contestant, Question, put
from harness.client import TargetFacts
from harness.earlier import NOTHING, Earlier, matching
from harness.events import (
    CaseJudged,
    CellExplained,
    Event,
    ExpectationChecked,
    PaddingChecked,
    RunFinished,
    RunStarted,
    Shrinking,
    Timed,
)
from harness.exit_codes import ExitCode
from harness.expectations.entry import Subject
from harness.expectations.ledger import Ledger
from harness.explaining import expectations_checked, explained
from harness.generation import Scheduled, schedule
from harness.jobs import Jobs, jobs_of
from harness.judging import begin, cell_count, contestants_of, judged_entries, known_contestants
from harness.outcome import TargetUnavailable
from harness.padding import check as check_padding
from harness.padding import checkups
from harness.plan import Plan
from harness.posing import Questions
from harness.reproducer.failures import reproduced
from harness.shrink import shrink
from harness.strength import Sample
from harness.tally import Tally
from harness.timings import Stopwatch, together
from harness.witness_tables import tables
from reports.records import Record, Verdict

_SHRINKABLE: Final = (Verdict.DIVERGES, Verdict.ERROR)

Emit = Callable[[Event], None]


@dataclass(frozen=True)
class _Run:
    """A run whose targets have started."""

    plan: Plan
    entries: Sequence[Scheduled]
    questions: Questions
    contestants: Sequence[Contestant]
    jobs: Jobs | None


def execute(plan: Plan, emit: Emit, earlier: Earlier = NOTHING) -> ExitCode:
    """Carry a plan out; events go to `emit` as they happen.

    What `earlier` has is not asked again; its events come with `stored` set. A `KeyboardInterrupt` ends the run as
    incomplete; what was judged before has been emitted.

    Raises `TargetUnavailable` when a target does not start, `UsageError` when `earlier` is of another run.
    """
    watch = Stopwatch()
    with ExitStack() as stack:
        run = _begun(plan, stack)
        contestants = run.contestants
        targets = {one.facts.label: as_facts(one.facts) for one in contestants}
        earlier.check_targets(targets)
        watch.lap("start")
        emit(RunStarted(targets, len(run.entries) * cell_count(plan, contestants)))
        subjects = [Subject.of(word, one.facts) for word, one in zip(plan.targets, contestants, strict=True)]
        tally = Tally(targets, Ledger(plan.expect, subjects), plan.strict_expectations)
        sample = Sample()
        found: dict[str, Any] = {}
        exit_code, complete = ExitCode.INTERRUPTED, False
        try:
            for event in _events(run, earlier, tally, sample, watch):
                tally.add(event)
                sample.add(event)
                emit(event)
            for written in reproduced(plan, contestants, tally.failures):
                emit(written)
            for table in tables(contestants, tally.failures):
                emit(table)
            watch.lap("explaining")
            expectations = [one.as_facts() for one in tally.expectations]
            found = {"strength": sample.as_facts(), "expectations": expectations}
            exit_code, complete = tally.exit_code, True
        except KeyboardInterrupt:
            pass
        except TargetUnavailable:
            # It had started, and could not be started again after it had died.
            exit_code = ExitCode.UNAVAILABLE
            raise
        finally:
            facts = {"exit_code": int(exit_code), **tally.as_facts(), "strength": {}, "expectations": [], **found}
            emit(Timed(watch.timings))
            emit(RunFinished(facts, complete, tally.witnesses))
    return exit_code


def _begun(plan: Plan, stack: ExitStack) -> _Run:
    """What is to be put, and the targets that it is put to: they start while it is made."""
    questions = Questions(plan)
    if plan.jobs > 1:
        jobs = stack.enter_context(jobs_of(plan))
        entries = schedule(plan.examples, plan.seed, plan.large)
        return _Run(plan, entries, questions, known_contestants(plan, stack, jobs.facts), jobs)
    begun = begin(plan, stack)
    entries = schedule(plan.examples, plan.seed, plan.large)
    questions.pose(entries, lambda: any(one.client.is_starting for one in begun))
    return _Run(plan, entries, questions, contestants_of(plan, begun), None)


def as_facts(facts: TargetFacts) -> dict[str, Any]:
    """A target's facts as JSON data."""
    return {
        "versions": dict(facts.versions),
        "python": facts.python,
        "torch": facts.torch,
        "platform": facts.platform,
        "replaced": list(facts.replaced),
        "source": None if facts.source is None else asdict(facts.source),
        "supports": {name: list(taken) for name, taken in asdict(facts.supports).items()},
        "conventions": _declared(facts.conventions, Conventions()),
        "conventions_by_loss": {
            loss: _declared(own, facts.conventions) for loss, own in facts.conventions_by_loss.items()
        },
    }


def _declared(conventions: Conventions, usual: Conventions) -> dict[str, Any]:
    """Conventions as JSON data: what is as usual is left out, but for the promise on padding."""
    told = {name: value for name, value in asdict(conventions).items() if value != getattr(usual, name)}
    if usual == Conventions():
        told["padding"] = [str(promise) for promise in conventions.padding]
    return {name: str(value) if isinstance(value, StrEnum) else value for name, value in told.items()}


def _events(
    run: _Run,
    earlier: Earlier,
    tally: Tally,
    sample: Sample,
    watch: Stopwatch,
) -> Iterator[CaseJudged | PaddingChecked | Shrinking | CellExplained | ExpectationChecked]:
    plan, contestants, jobs = run.plan, run.contestants, run.jobs
    yield from _judged(run, earlier.judged)
    watch.lap("judging")
    stored = list(earlier.padding)
    strength = sample.measured()
    for checked in check_padding(plan, contestants) if jobs is None else jobs.checked(checkups(plan)):
        # Asked again, since it is quick; only what is on disk already is not written twice.
        is_stored = checked.record is not None and bool(stored)
        yield replace(checked, stored=is_stored)
        if is_stored:
            stored.pop(0)
        # The targets have their hands full meanwhile.
        next(strength, None)
    watch.lap("padding")
    for _ in strength:
        pass
    watch.lap("strength")
    uses = [tuple(one.client.use for one in contestants)] if jobs is None else jobs.uses
    watch.used(together(uses, [one.facts.label for one in contestants]))
    shrunk = list(earlier.shrunk)
    for failing in tally.failing(_SHRINKABLE):
        yield Shrinking(failing.record.cell)
        if shrunk:
            record = shrunk.pop(0)
            yield CaseJudged(record, earlier.shrunk_case(record), 0.0, stored=True)
        else:
            yield from _smallest(failing, contestants)
    yield from explained(tally.suspects, contestants)
    yield from expectations_checked(tally.to_check, contestants)


def _judged(run: _Run, stored: Sequence[Record]) -> Iterator[CaseJudged]:
    """Every scheduled description: from the records of an earlier run as far as they go, then from the targets."""
    size = cell_count(run.plan, run.contestants)
    whole = len(stored) // size if size else 0
    for number, entry in enumerate(run.entries[:whole]):
        yield from _stored(run, entry, stored[number * size :])
    rest = list(stored[whole * size :])
    left = run.entries[whole:]
    fresh = judged_entries(run.questions, left, run.contestants) if run.jobs is None else run.jobs.judged(left)
    for judged in fresh:
        if rest:
            # A description that was cut short is put again as a whole; what was written of it stands.
            record = matching(rest, judged.record.case_id)
            yield replace(judged, record=record, stored=True)
            rest.pop(0)
        else:
            yield judged


def _stored(run: _Run, entry: Scheduled, stored: Sequence[Record]) -> Iterator[CaseJudged]:
    records = iter(stored)
    for question, having in run.questions.of(entry, run.contestants):
        for one in having:
            case = one.under_conventions(question.case)
            yield CaseJudged(matching([next(records)], case.id), case, 0.0, stored=True)


def _smallest(failing: CaseJudged, contestants: Sequence[Contestant]) -> Iterator[CaseJudged]:
    """The smallest case that fails as a cell's simplest failing one does, judged."""
    record = failing.record
    one = next(one for one in contestants if one.facts.label == record.cell.target)

    def fails_alike(case: Case) -> bool:
        # A smaller case may fail as expected: that is another matter.
        judgement = one.as_expected(one.judged(case), record.cell, regions_of(case))
        return judgement.verdict is record.verdict

    smallest = shrink(failing.case, fails_alike)
    yield from put(Question(smallest, regions_of(smallest), record.description, "shrunk"), [one])
