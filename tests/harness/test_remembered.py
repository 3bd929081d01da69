"""What is right is remembered for small cases, and for no more of them than fit."""

from __future__ import annotations

import pytest

from cases.case import Case
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.schedule import boundary_descriptions
from cases.spec import Level, LossType
from harness import remembered


def cases() -> list[Case]:
    """Boundary cases of one cell."""
    return [
        case_for(one, realise(one, FLOAT32, Level.TOKEN), LossType.GRPO, Level.TOKEN, 0.0)
        for one in boundary_descriptions()
    ]


def test_a_small_case_is_evaluated_once() -> None:
    """The same object comes back for the same content; a large case is evaluated anew."""
    small = next(case for case in cases() if case.batch.mask.size <= remembered.LARGEST)
    large = next(case for case in cases() if case.batch.mask.size > remembered.LARGEST)
    assert remembered.expected(small) is remembered.expected(Case.from_json(small.to_json()))
    assert remembered.expected(large) is not remembered.expected(large)


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long run does not grow without end."""
    monkeypatch.setattr(remembered, "MOST", 2)
    first, *others = [case for case in cases() if case.batch.mask.size <= remembered.LARGEST][:4]
    kept = remembered.expected(first)
    for case in others:
        remembered.expected(case)
    assert remembered.expected(first) is not kept
