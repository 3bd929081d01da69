"""What is expected is found for many cases at once, and given out in the order that they come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from cases.case import Case
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.schedule import boundary_descriptions
from cases.spec import Level, LossType
from harness import foresight
from harness.foresight import FIRST, foresee
from harness.remembered import expected_all
from oracles.batched.expectation import expect
from oracles.expectation import Expectation


def cases() -> list[Case]:
    """Boundary cases in a few cells, one description after the other."""
    return [
        case_for(one, batch, loss_type, Level.TOKEN, beta)
        for one in boundary_descriptions()
        for batch in [realise(one, FLOAT32, Level.TOKEN)]
        for loss_type in (LossType.GRPO, LossType.BNPO, LossType.CISPO)
        for beta in (0.0, 0.04)
    ]


def groups(coming: Sequence[Case], seen: list[Case]) -> Iterator[list[tuple[Case, int]]]:
    """Each case twice, as two targets get it; `seen` gets what was looked at."""
    for case in coming:
        seen.append(case)
        yield [(case, 0), (case, 1)]


def test_order_and_answers() -> None:
    """Every case comes back in its turn, for each target, with what is expected of it."""
    coming = cases()
    found = list(foresee(groups(coming, [])))
    assert [[(case.id, about) for case, about, _ in group] for group in found] == [
        [(case.id, 0), (case.id, 1)] for case in coming
    ]
    for (case, _, ours), (_, _, theirs) in found:
        exact = expect(case)
        assert ours is theirs
        np.testing.assert_array_equal(ours.loss.bound, exact.loss.bound)
        np.testing.assert_array_equal(ours.gradients[0].high, exact.gradients[0].high)


def test_many_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far fewer calls than cases."""
    sizes: list[int] = []

    def counted(alike: Sequence[Case]) -> list[Expectation]:
        sizes.append(len(alike))
        return expected_all(alike)

    monkeypatch.setattr(foresight, "expected_all", counted)
    coming = cases()
    assert len(list(foresee(groups(coming, [])))) == len(coming)
    assert sum(sizes) == 2 * len(coming)
    assert len(sizes) < len(coming) / 8


def test_it_looks_ahead_a_little_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first case does not wait for all others to be drawn, and large ones do not pile up."""
    coming, seen = cases(), list[Case]()
    foreseen = foresee(groups(coming, seen))
    for number in range(100):
        next(foreseen)
        assert len(seen) <= FIRST + 2 * number
    monkeypatch.setattr(foresight, "MOST_POSITIONS", 4)
    seen.clear()
    next(foresee(groups(coming, seen)))
    assert sum(2 * case.batch.mask.size for case in seen[:-1]) < 4
