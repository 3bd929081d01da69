"""The schedule of a run: reproducible, free of side effects, and never the same case twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.generation import PHASES, draw, schedule


def case_ids(seed: int) -> list[str]:
    return [
        case_for(entry.description, batch, LossType.GRPO, Level.TOKEN, 0.04).id
        for entry in schedule(40, seed)
        for batch in [realise(entry.description, FLOAT32, Level.TOKEN)]
    ]


def test_equal_seeds_give_equal_schedules() -> None:
    """The same seed means the same cases, another one other cases."""
    assert schedule(40, 3) == schedule(40, 3)
    assert case_ids(3) == case_ids(3)
    assert not set(case_ids(3)) & set(case_ids(4))


def test_fixed_phases_come_first_then_what_was_asked_for() -> None:
    """The corpus, every boundary once, then exactly the examples, numbered throughout."""
    entries = schedule(25, 0)
    phases = [entry.phase for entry in entries]
    assert phases == sorted(phases, key=PHASES.index)
    assert set(phases) == set(PHASES)
    assert phases.count("drawn") == 25
    assert [entry.number for entry in entries] == list(range(len(entries)))


def test_repeated_descriptions_are_other_cases() -> None:
    """Hypothesis repeats itself; the cases of a run do not (but for batches without a token to differ in)."""
    ids = case_ids(1)
    assert len(set(ids)) == len(ids)


def test_drawing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis' own folder does not appear where the user works."""
    monkeypatch.chdir(tmp_path)
    assert len(draw(10, 0)) == 10
    assert list(tmp_path.iterdir()) == []
