"""The run: every scheduled description, judged in every cell, as a stream of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import LossType
from harness.asking import Contestant, Question, put
from harness.client import TargetFacts, WorkerClient
from harness.events import CaseJudged, Event, RunFinished, RunStarted, Shrinking
from harness.exit_codes import ExitCode
from harness.generation import schedule
from harness.padding import check as check_padding
from harness.plan import Plan
from harness.shrink import shrink
from harness.tally import Failing, Tally
from reports.records import Verdict

_SHRINKABLE: Final = (Verdict.DIVERGES, Verdict.ERROR)

Emit = Callable[[Event], None]


def execute(plan: Plan, emit: Emit) -> ExitCode:
    """Carry a plan out; events go to `emit` as they happen.

    A `KeyboardInterrupt` ends the run as incomplete; what was judged before has been emitted.

    Raises `TargetUnavailable` when a target does not start.
    """
    scheduled = schedule(plan.examples, plan.seed)
    with ExitStack() as stack:
        contestants = [_contestant(plan, target, stack) for target in plan.targets]
        targets = {one.facts.label: as_facts(one.facts) for one in contestants}
        questions = len(scheduled) * plan.cells_per_target * len(contestants)
        emit(RunStarted(targets, questions))
        tally = Tally()
        exit_code, complete = ExitCode.INTERRUPTED, False
        try:
            for question in _questions(plan):
                for judged in put(question, contestants):
                    tally.add(judged)
                    emit(judged)
            for checked in check_padding(plan, contestants):
                tally.add_padding(checked)
                emit(checked)
            for failing in tally.failing(_SHRINKABLE):
                emit(Shrinking(failing.judged.record.cell))
                for judged in _smallest(failing, contestants):
                    tally.add(judged)
                    emit(judged)
            exit_code, complete = tally.exit_code, True
        except KeyboardInterrupt:
            pass
        emit(RunFinished({"exit_code": int(exit_code), **tally.as_facts()}, complete, tally.witnesses))
    return exit_code


def client_for(plan: Plan, target: str) -> WorkerClient:
    """The client of one target of a plan, not started yet."""
    options = {"loss_type": str(plan.loss_types[0])} if len(plan.loss_types) == 1 else {}
    return WorkerClient(plan.python, target, options, cwd=Path.cwd(), timeout=plan.timeout)


def as_facts(facts: TargetFacts) -> dict[str, Any]:
    """A target's facts as JSON data."""
    return {
        "versions": dict(facts.versions),
        "python": facts.python,
        "torch": facts.torch,
        "platform": facts.platform,
        "replaced": list(facts.replaced),
        "conventions": {
            "empty_rows": str(facts.conventions.empty_rows),
            "padding": [str(promise) for promise in facts.conventions.padding],
        },
    }


def _contestant(plan: Plan, target: str, stack: ExitStack) -> Contestant:
    client = stack.enter_context(client_for(plan, target))
    return Contestant(client, client.facts, plan.device, plan.known, plan.strict)


def _questions(plan: Plan) -> Iterator[Question]:
    """Every scheduled description in every cell."""
    for entry in schedule(plan.examples, plan.seed):
        for dtype in plan.dtypes:
            for level in plan.levels:
                batch = realise(entry.description, dtype, level)
                known: dict[tuple[object, bool, bool], tuple[str, ...]] = {}
                for loss_type in plan.loss_types:
                    for beta in plan.betas:
                        case = case_for(entry.description, batch, loss_type, level, beta)
                        # What regions depend on, beside the batch: the bounds, the loss's own parameters, and
                        # whether there is a KL term.
                        key = (case.spec.ratio_bounds, loss_type is LossType.SAPO, beta > 0)
                        if key not in known:
                            known[key] = regions_of(case)
                        yield Question(case, known[key], entry.number, entry.phase)


def _smallest(failing: Failing, contestants: Sequence[Contestant]) -> Iterator[CaseJudged]:
    """The smallest case that fails as a cell's simplest failing one does, judged."""
    record = failing.judged.record
    one = next(one for one in contestants if one.facts.label == record.cell.target)
    smallest = shrink(failing.judged.case, lambda case: one.judged(case).verdict is record.verdict)
    yield from put(Question(smallest, regions_of(smallest), record.description, "shrunk"), [one])
