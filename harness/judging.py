"""One description in every cell, put to every target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import LossType
from harness.asking import Contestant, Question, put
from harness.client import WorkerClient
from harness.events import CaseJudged
from harness.generation import Scheduled
from harness.plan import Plan


def client_for(plan: Plan, target: str) -> WorkerClient:
    """The client of one target of a plan, not started yet."""
    options = {"device": plan.device}
    if len(plan.loss_types) == 1:
        options["loss_type"] = str(plan.loss_types[0])
    return WorkerClient(
        plan.python,
        target,
        options,
        cwd=Path.cwd(),
        timeout=plan.timeout,
        # Drivers of other devices reserve far more addresses than they use.
        memory=int(plan.memory * 2**30) if plan.device == "cpu" else None,
    )


def open_contestants(plan: Plan, stack: ExitStack) -> list[Contestant]:
    """Start every target of a plan; leaving `stack` ends them. Raises `TargetUnavailable`."""
    clients = [stack.enter_context(client_for(plan, target)) for target in plan.targets]
    return [Contestant(client, client.facts, plan.device, plan.known, plan.strict) for client in clients]


def questions(plan: Plan, entry: Scheduled) -> Iterator[Question]:
    """One scheduled description in every cell."""
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


def judged_entry(plan: Plan, entry: Scheduled, contestants: Sequence[Contestant]) -> Iterator[CaseJudged]:
    """What becomes of one scheduled description."""
    for question in questions(plan, entry):
        yield from put(question, contestants)
