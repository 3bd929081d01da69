"""One description in every cell, put to every target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import Locator
from cases.spec import LossType
from harness.asking import Contestant, Question, put_all
from harness.client import TargetFacts, WorkerClient
from harness.events import CaseJudged
from harness.expectations.entry import Subject
from harness.generation import Scheduled
from harness.plan import Plan
from harness.releases.overlay import Overlay, overlay_of


def client_for(plan: Plan, target: str) -> WorkerClient:
    """The client of one target of a plan, not started yet; a release is fetched, where the cache lacks it.

    Raises `TargetUnavailable` when there is no such release, or it cannot be fetched.
    """
    return _client(plan, target, _overlay(plan, target))


def contestant(plan: Plan, target: str, client: WorkerClient) -> Contestant:
    """A target of a plan that has started, under its own name."""
    return _contestants(plan, [target], [_overlay(plan, target)], [client])[0]


def open_contestants(plan: Plan, stack: ExitStack, known: Sequence[TargetFacts] | None = None) -> list[Contestant]:
    """Start every target of a plan; leaving `stack` ends them. Raises `TargetUnavailable`.

    Where their facts are `known`, each starts when it is first asked.
    """
    # All are there before the first is started: that takes seconds, a wrong name none.
    overlays = [_overlay(plan, target) for target in plan.targets]
    clients = [_client(plan, target, overlay) for target, overlay in zip(plan.targets, overlays, strict=True)]
    for number, client in enumerate(clients):
        if known is None:
            stack.enter_context(client)
        else:
            client.knows(known[number])
            stack.callback(client.close)
    return _contestants(plan, plan.targets, overlays, clients)


def _overlay(plan: Plan, target: str) -> Overlay:
    settings = plan.settings_of(target)
    return overlay_of(settings.name, settings.python or plan.python, offline=plan.offline)


def _client(plan: Plan, target: str, overlay: Overlay) -> WorkerClient:
    settings = plan.settings_of(target)
    options = {"device": plan.device}
    if settings.loss_type or len(plan.loss_types) == 1:
        options["loss_type"] = settings.loss_type or str(plan.loss_types[0])
    if settings.level or len(plan.levels) == 1:
        options["level"] = settings.level or str(plan.levels[0])
    return WorkerClient(
        settings.python or plan.python,
        overlay.target,
        options,
        cwd=Path.cwd(),
        timeout=plan.timeout,
        path=overlay.folders,
        # Drivers of other devices reserve far more addresses than they use.
        memory=int(plan.memory * 2**30) if plan.device == "cpu" else None,
    )


def _contestants(
    plan: Plan, targets: Sequence[str], overlays: Sequence[Overlay], clients: Sequence[WorkerClient]
) -> list[Contestant]:
    facts = [
        plan.settings_of(target).applied(overlay.told(client.facts))
        for target, overlay, client in zip(targets, overlays, clients, strict=True)
    ]
    return [
        Contestant(client, one, plan.device, plan.expect.about(Subject.of(target, one)), plan.strict)
        for target, client, one in zip(targets, clients, _distinct(targets, facts), strict=True)
    ]


def _distinct(targets: Sequence[str], facts: Sequence[TargetFacts]) -> list[TargetFacts]:
    """Facts under labels of their own: an installed fork may bear the version of a release beside it."""
    labels = [one.label for one in facts]
    return [
        replace(one, label=f"{one.label} ({target})") if labels.count(one.label) > 1 else one
        for target, one in zip(targets, facts, strict=True)
    ]


def cell_count(plan: Plan, contestants: Sequence[Contestant]) -> int:
    """How many rows of the table there are: the plan's cells that each target has."""
    cells = product(plan.loss_types, plan.levels, plan.dtypes, contestants)
    return len(plan.betas) * sum(one.takes(loss_type, level, dtype) for loss_type, level, dtype, one in cells)


def questions(
    plan: Plan, entry: Scheduled, contestants: Sequence[Contestant]
) -> Iterator[tuple[Question, Sequence[Contestant]]]:
    """One scheduled description in every cell, with the targets that have it."""
    for dtype, level in product(plan.dtypes, plan.levels):
        having = {
            loss_type: tuple(one for one in contestants if one.takes(loss_type, level, dtype))
            for loss_type in plan.loss_types
        }
        if not any(having.values()):
            continue
        batch = realise(entry.description, dtype, level)
        locator = Locator()
        known: dict[tuple[object, ...], tuple[str, ...]] = {}
        for loss_type, beta in product(plan.loss_types, plan.betas):
            if not having[loss_type]:
                continue
            case = case_for(entry.description, batch, loss_type, level, beta)
            # What regions depend on, beside the batch: the bounds, the loss's own parameters, and whether there
            # is a KL term.
            own = loss_type if loss_type in (LossType.SAPO, LossType.GMPO) else None
            key = (case.spec.ratio_bounds, own, beta > 0)
            if key not in known:
                known[key] = locator.regions_of(case)
            yield Question(case, known[key], entry.number, entry.phase), having[loss_type]


def judged_entries(
    plan: Plan, entries: Iterable[Scheduled], contestants: Sequence[Contestant]
) -> Iterator[CaseJudged]:
    """What becomes of scheduled descriptions, in order."""
    return put_all(chain.from_iterable(questions(plan, entry, contestants) for entry in entries))


def judged_entry(plan: Plan, entry: Scheduled, contestants: Sequence[Contestant]) -> Iterator[CaseJudged]:
    """What becomes of one scheduled description."""
    yield from put_all(questions(plan, entry, contestants))
