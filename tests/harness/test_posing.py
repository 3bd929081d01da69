"""The questions of a plan are the same whether they were posed while its targets started or not."""

from __future__ import annotations

import sys
from itertools import count

import pytest

from cases.conventions import Conventions
from harness import posing
from harness.asking import Contestant
from harness.client import TargetFacts, TargetSupport, WorkerClient
from harness.generation import LARGE, Scheduled, schedule
from harness.plan import Plan
from harness.posing import Questions

LEVELS = "token,sequence"
PLAN = Plan.of(["trl"], dtypes="float32,bfloat16", betas="0,0.04", loss_types="grpo,gmpo,sapo", levels=LEVELS)
ENTRIES = schedule(4, 0)[-6:]


def contestant(loss_types: tuple[str, ...], dtypes: tuple[str, ...]) -> Contestant:
    """A target that has some losses in some dtypes, at token level; it is never started."""
    supports = TargetSupport(loss_types, ("token",), dtypes, ())
    facts = TargetFacts("one", {}, supports, Conventions(), {}, (), "", "", "")
    return Contestant(WorkerClient(sys.executable, "one"), facts, "cpu")


ONE = contestant(("grpo", "sapo"), ("float32",))
OTHER = contestant(("grpo",), ("float32", "bfloat16"))


def told(questions: Questions, entry: Scheduled) -> list[tuple[object, ...]]:
    """Questions and who gets them, as what can be compared."""
    found = []
    for one, having in questions.of(entry, [ONE, OTHER]):
        cell = one.case.spec.loss_type, one.case.batch.dtype.name
        found.append((one.case.id, *cell, one.regions, one.description, one.phase, *map(id, having)))
    return found


def test_the_same_ahead() -> None:
    """In one order, for the targets that have the loss, at their level and in their dtype."""
    ahead = Questions(PLAN)
    ahead.pose(ENTRIES, lambda: True)
    for entry in ENTRIES:
        ours = told(ahead, entry)
        assert ours == told(Questions(PLAN), entry)
        assert [(loss, dtype, *who) for _, loss, dtype, _, _, _, *who in ours] == [
            ("grpo", "float32", id(ONE), id(OTHER)),
            ("grpo", "float32", id(ONE), id(OTHER)),
            ("sapo", "float32", id(ONE)),
            ("sapo", "float32", id(ONE)),
            ("grpo", "bfloat16", id(OTHER)),
            ("grpo", "bfloat16", id(OTHER)),
        ]
        # Whoever asks again is answered again.
        assert told(ahead, entry) == ours


def test_only_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was posed ahead is not posed again, and nothing else is posed than was asked for."""
    posed: list[int] = []

    def noted(plan: Plan, entry: Scheduled, *chosen: posing.Chosen) -> object:
        posed.append(entry.number)
        return genuine(plan, entry, *chosen)

    genuine = posing.posed
    monkeypatch.setattr(posing, "posed", noted)
    calls = count()
    questions = Questions(PLAN)
    questions.pose(ENTRIES, lambda: next(calls) < 2)
    assert posed == [one.number for one in ENTRIES[:2]]
    for entry in ENTRIES:
        told(questions, entry)
    assert posed == [one.number for one in ENTRIES]


def test_large_batches_wait_for_their_turn() -> None:
    """They would take all the memory, and longer than any target takes to start."""
    entries = schedule(1, 0, large=True)
    first = next(number for number, one in enumerate(entries) if one.phase == LARGE)
    calls = count(1)
    Questions(Plan.of(["trl"], dtypes="float32", loss_types="grpo", levels="token", betas="0")).pose(
        entries[first - 1 :], lambda: bool(next(calls))
    )
    assert next(calls) == 2
