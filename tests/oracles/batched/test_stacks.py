"""Cases that are evaluated together have the expectations they have alone, to the bit, and the literal ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from batched_equality import assert_same

from cases.batch import Batch
from cases.case import Case
from cases.conventions import Conventions, EmptyRows, KLAggregation, SequenceGradient
from cases.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossSpec, LossType
from cases.split import Split
from harness.generation import schedule
from oracles.batched.expectation import expect, together
from oracles.batched.stacks import MOST, expect_all, stacks
from oracles.expectation import Exact, Expectation
from oracles.expectation import expect as literally

SCHEDULE = schedule(16, 0)
CONVENTIONS = (
    Conventions(),
    Conventions(dual_clip=3.0, empty_rows=EmptyRows.NOT_COUNTED, denominator_epsilon=1e-8),
    Conventions(kl_aggregation=KLAggregation.TOKEN_MEAN, sequence_gradient=SequenceGradient.TOKEN),
)


def scheduled(dtype: DType, conventions: Conventions, step: int) -> list[Case]:
    """Every description in some of the cells, of which the next one has others."""
    cells = list(product(Level, LossType, (0.0, 0.04)))
    cases = []
    for number, entry in enumerate(SCHEDULE):
        for level, loss_type, beta in cells[number % step :: step]:
            batch = realise(entry.description, dtype, level)
            case = case_for(entry.description, batch, loss_type, level, beta)
            cases.append(replace(case, spec=replace(case.spec, conventions=conventions)))
    return cases


def assert_equal(one: Expectation, other: Expectation) -> None:
    """The same numbers, to the bit."""
    assert one.loss_overflows == other.loss_overflows
    assert (one.gradient_overflows == other.gradient_overflows).all()
    _assert_equal(one.loss, other.loss)
    assert len(one.gradients) == len(other.gradients)
    for ours, theirs in zip(one.gradients, other.gradients, strict=True):
        _assert_equal(ours, theirs)
    assert (one.hull is None) == (other.hull is None)
    for ours, theirs in zip(one.hull or (), other.hull or (), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert len(one.others) == len(other.others)
    for ours, theirs in zip(one.others, other.others, strict=True):
        assert_equal(ours, theirs)


def _assert_equal(one: Exact, other: Exact) -> None:
    for name in ("high", "low", "bound"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("conventions", CONVENTIONS, ids=range(len(CONVENTIONS)))
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_a_case_has_company_for_nothing(dtype: DType, conventions: Conventions) -> None:
    """On a whole schedule: decisions in doubt, jumps, overflow, splits, and every option among them."""
    cases = scheduled(dtype, conventions, 6)
    seen: Counter[str] = Counter()
    for case, found in zip(cases, expect_all(cases), strict=True):
        assert_equal(found, expect(case))
        seen.update(undecided=found.undecided, jumps=bool(found.others), overflows=found.loss_overflows)
        seen.update(hulls=found.hull is not None, splits=not case.split.is_whole)
    assert min(seen.values()) > 0, seen
    sizes = [len(numbers) for numbers in stacks(cases)]
    assert sum(sizes) == len(cases)
    assert len(cases) > 2 * len(sizes)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_a_stack_is_certified(dtype: DType) -> None:
    """Against the literal oracle, as single cases are."""
    cases = scheduled(dtype, Conventions(), 24)
    for case, found in zip(cases, expect_all(cases), strict=True):
        assert_same(literally(case), found, dtype)


def test_every_case_keeps_its_numbers() -> None:
    """Hyper-parameters, shapes and splits that differ from one case of a stack to the next."""
    cases = [one_case(number) for number in range(12)]
    assert [len(numbers) for numbers in stacks(cases)] == [12]
    for case, found in zip(cases, together(cases), strict=True):
        assert_same(literally(case), found, FLOAT32)
    losses = [float(found.loss.high[0]) for found in together(cases)]
    assert len(set(losses)) == len(cases)


def one_case(number: int, loss_type: LossType = LossType.DAPO) -> Case:
    random = np.random.default_rng(number)
    rows, columns = 2 * (1 + number % 3), 1 + number % 4
    shape = rows, columns
    logps = FLOAT32.round(-random.uniform(0.02, 1.0, shape))
    advantages = FLOAT32.round(random.normal(0.0, 1.0, shape if number % 2 else rows))
    batch = Batch(
        FLOAT32,
        logps,
        FLOAT32.round(logps - random.normal(0.0, 0.3, shape)),
        FLOAT32.round(logps + random.uniform(-1.0, 1.0, shape)),
        advantages,
        np.ones(shape, dtype=bool),
        importance_ratio=FLOAT32.round(random.uniform(0.5, 1.5, (rows, 1 if number % 3 else columns))),
    )
    spec = LossSpec(
        loss_type,
        beta=0.01 * (1 + number),
        epsilon_low=0.1 + 0.01 * number,
        epsilon_high=0.1 + 0.003 * number,
        delta=1.5 + 0.1 * number,
    )
    return Case(batch, spec, Split(ranks=1 + number % 2))


def test_what_cannot_be_together_is_alone() -> None:
    """Cases without tokens, and more cases than a stack may have; the order is kept."""
    whole = one_case(0)
    empty = replace(whole, batch=replace(whole.batch, mask=np.zeros_like(whole.batch.mask)))
    cases = [one_case(number) for number in range(MOST + 3)]
    mixed = [empty, *cases, empty]
    assert sorted(map(len, stacks(mixed))) == [1, 1, 3, MOST]
    for case, found in zip(mixed, expect_all(mixed), strict=True):
        assert_equal(found, expect(case))


def test_one_case_beyond_float64_leaves_the_others_alone() -> None:
    """It goes to the literal oracle, they stay on arrays."""
    random = np.random.default_rng(0)
    cases = []
    for number in range(5):
        logps = FLOAT64.round(-random.uniform(0.02, 1.0, (2, 3)))
        far = logps - (800.0 if number == 2 else 0.1)
        batch = Batch(FLOAT64, logps, FLOAT64.round(far), None, np.ones(2), np.ones((2, 3), dtype=bool))
        cases.append(Case(batch, LossSpec(LossType.CISPO, epsilon_high=1.2)))
    found = together(cases)
    for number, case in enumerate(cases):
        assert_equal(found[number], literally(case) if number == 2 else expect(case))
    assert found[2].loss_overflows
    assert not any(found[number].loss_overflows for number in (0, 1, 3, 4))
