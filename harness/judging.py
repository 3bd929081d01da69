"""The targets of a plan, and the questions that are put to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

from harness.asking import Contestant, put_all
from harness.client import TargetFacts, WorkerClient
from harness.events import CaseJudged
from harness.expectations.entry import Subject
from harness.generation import Scheduled
from harness.plan import Plan
from harness.posing import Questions
from harness.releases.overlay import Overlay, overlay_of


class Begun(NamedTuple):
    """A target of a plan whose process may be on its way, and what is laid over its interpreter."""

    target: str
    overlay: Overlay
    client: WorkerClient


def client_for(plan: Plan, target: str) -> WorkerClient:
    """The client of one target of a plan, not started yet; a release is fetched, where the cache lacks it.

    Raises `TargetUnavailable` when there is no such release, or it cannot be fetched.
    """
    return _client(plan, target, _overlay(plan, target))


def contestant(plan: Plan, target: str, client: WorkerClient) -> Contestant:
    """A target of a plan that has started, under its own name."""
    return contestants_of(plan, [Begun(target, _overlay(plan, target), client)])[0]


def begin(plan: Plan, stack: ExitStack) -> list[Begun]:
    """Start every target of a plan, and wait for none; leaving `stack` ends them. Raises `TargetUnavailable`."""
    all_begun = _not_begun(plan, stack)
    for one in all_begun:
        one.client.begin()
    return all_begun


def open_contestants(plan: Plan, stack: ExitStack) -> list[Contestant]:
    """Start every target of a plan; leaving `stack` ends them. Raises `TargetUnavailable`."""
    return contestants_of(plan, begin(plan, stack))


def known_contestants(plan: Plan, stack: ExitStack, facts: Sequence[TargetFacts]) -> list[Contestant]:
    """Every target of a plan, by what is known of it: each starts when it is first asked."""
    all_begun = _not_begun(plan, stack)
    for one, known in zip(all_begun, facts, strict=True):
        one.client.knows(known)
    return contestants_of(plan, all_begun)


def contestants_of(plan: Plan, all_begun: Sequence[Begun]) -> list[Contestant]:
    """Targets of a plan, once each has said what it is. Raises `TargetUnavailable`."""
    facts = [plan.settings_of(target).applied(overlay.told(client.facts)) for target, overlay, client in all_begun]
    return [
        Contestant(client, own, plan.device, plan.expect.about(Subject.of(target, own)), plan.strict)
        for (target, _, client), own in zip(all_begun, _distinct(all_begun, facts), strict=True)
    ]


def _not_begun(plan: Plan, stack: ExitStack) -> list[Begun]:
    # All are there before the first is started: that takes seconds, a wrong name none.
    overlays = [_overlay(plan, target) for target in plan.targets]
    all_begun = [
        Begun(target, overlay, _client(plan, target, overlay))
        for target, overlay in zip(plan.targets, overlays, strict=True)
    ]
    for one in all_begun:
        stack.push(one.client)
    return all_begun


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


def _distinct(all_begun: Sequence[Begun], facts: Sequence[TargetFacts]) -> list[TargetFacts]:
    """Facts under labels of their own: an installed fork may bear the version of a release beside it."""
    labels = [one.label for one in facts]
    return [
        replace(one, label=f"{one.label} ({begun.target})") if labels.count(one.label) > 1 else one
        for begun, one in zip(all_begun, facts, strict=True)
    ]


def cell_count(plan: Plan, contestants: Sequence[Contestant]) -> int:
    """How many rows of the table there are: the plan's cells that each target has."""
    cells = product(plan.loss_types, plan.levels, plan.dtypes, contestants)
    return len(plan.betas) * sum(one.takes(loss_type, level, dtype) for loss_type, level, dtype, one in cells)


def judged_entries(
    questions: Questions, entries: Iterable[Scheduled], contestants: Sequence[Contestant]
) -> Iterator[CaseJudged]:
    """What becomes of scheduled descriptions, in order."""
    return put_all(chain.from_iterable(questions.of(entry, contestants) for entry in entries))


def judged_entry(plan: Plan, entry: Scheduled, contestants: Sequence[Contestant]) -> Iterator[CaseJudged]:
    """What becomes of one scheduled description."""
    yield from put_all(Questions(plan).of(entry, contestants))
