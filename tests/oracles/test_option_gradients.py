"""The exact losses and gradients of all losses with their options are those of the closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from admission import FLOOR, TIGHT, Seen, assert_admitted
from bare_cases import bare
from closed_forms import Sum
from closed_forms_options import closed_form_with_options
from closed_forms_weights import drops, micro_batches
from flint import arb, ctx

from cases.case import Case
from cases.conventions import Conventions, EmptyRows, WindowTokens
from cases.descriptions import OPTIONS, Description, OffPolicyMask
from cases.dtypes import DTYPES
from cases.hyperparameters import case_for
from cases.pairwise import covering
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.generation import draw
from oracles.expectation import Exact, expect

CASES: Final = {
    loss_type: 1000 if loss_type in (LossType.SAPO, LossType.LUSPO, LossType.VESPO) else 300
    for loss_type in LossType
}
LARGEST: Final = 36
"""Positions of a batch: what holds for a sum of two completions holds for eight."""

CELLS: Final = tuple(
    (dtype, level, beta, empty_rows, window_tokens)
    for beta in (0.0, 0.04, 1.0)
    for level in Level
    for empty_rows in EmptyRows
    for window_tokens in WindowTokens
    for dtype in DTYPES.values()
)


@pytest.fixture(scope="module")
def descriptions() -> list[Description]:
    """Small descriptions: as drawn, with the pairwise combinations of options in turn, and without options."""
    combinations = covering(OPTIONS)
    taken = []
    for number, drawn in enumerate(draw(700, 31)):
        taken += [drawn, replace(drawn, **combinations[number % len(combinations)]), bare(drawn)]
    return [one for one in taken if one.row_count * one.columns <= LARGEST]


def _case(description: Description, number: int, loss_type: LossType) -> Case:
    # Each loss meets a description in another cell.
    dtype, level, beta, empty_rows, window = CELLS[(number + 7 * list(LossType).index(loss_type)) % len(CELLS)]
    case = case_for(description, realise(description, dtype, level), loss_type, level, beta)
    return replace(case, spec=replace(case.spec, conventions=Conventions(empty_rows, window)))


def _count(case: Case, seen: Seen) -> None:
    spec, batch, split = case.spec, case.batch, case.split
    judged = [row for rows in micro_batches(case) for row in rows]
    dropped = [drops(case, row) for row in judged if batch.lengths[row]]
    seen.cases.update(
        name
        for name, holds in (
            (spec.importance_sampling_level, True),
            ("delta", spec.delta is not None),
            ("delta below the bound", spec.delta is not None and spec.delta < 1 + spec.epsilon_high),
            ("bias-corrected", spec.kl_estimator == "k3_bias_corrected"),
            ("importance (B, T)", batch.importance_ratio is not None and batch.importance_ratio.shape[1] > 1),
            ("importance (B, 1)", batch.importance_ratio is not None and batch.importance_ratio.shape[1] == 1),
            ("dropped", True in dropped),
            ("kept", spec.off_policy_mask_threshold is not None and False in dropped),
            ("ranks", split.ranks > 1),
            ("accumulation", split.accumulation_steps > 1),
            ("beyond the step", len(judged) < batch.rows),
            (split.mode, True),
            ("average window", spec.conventions.window_tokens is WindowTokens.GENERATION_AVERAGE),
            ("not counted", spec.conventions.empty_rows is EmptyRows.NOT_COUNTED and 0 in batch.lengths),
            ("whole", split.is_whole),
        )
        if holds
    )


@pytest.mark.parametrize("loss_type", LossType)
def test_oracle_with_options_is_the_closed_form(loss_type: LossType, descriptions: list[Description]) -> None:
    """Loss and gradient by automatic differentiation equal the ones derived by hand, to the ball radius."""
    seen = Seen()
    assert len(descriptions) >= CASES[loss_type]
    for number, description in enumerate(descriptions[: CASES[loss_type]]):
        case = _case(description, number, loss_type)
        assert_admitted(case, closed_form_with_options(case), seen)
        _count(case, seen)
    # Every option was met, and what is undecided was the exception.
    assert len(seen.cases) == (17 if loss_type.clips else 15), seen
    assert min(seen.cases.values()) >= 10, seen
    if loss_type.clips or loss_type is LossType.GMPO:
        assert 0 < seen.elements["undecided"] < 0.25 * seen.elements["decided"]
    else:
        assert seen.elements["undecided"] == 0


@pytest.mark.parametrize("loss_type", LossType)
def test_first_expectation_is_the_closed_form(loss_type: LossType, descriptions: list[Description]) -> None:
    """Where rounding can drop a completion or keep it, the first expectation does what exact arithmetic does."""
    met = Counter[bool]()
    at_threshold = [one for one in descriptions if one.off_policy_mask is OffPolicyMask.AT_THRESHOLD]
    for number, description in enumerate(at_threshold[:120]):
        case = _case(description, number, loss_type)
        found = expect(case)
        closed = closed_form_with_options(case)
        assert _near(found.loss, (0,), closed.loss)
        judged = [row for rows in micro_batches(case) for row in rows]
        for position in np.ndindex(case.batch.mask.shape):
            if position[0] not in judged or not case.batch.mask[position]:
                assert all(exact.high[position] == exact.bound[position] == 0.0 for exact in found.gradients)
            elif found.hull is None:
                assert any(_near(exact, position, closed.gradient[position]) for exact in found.gradients)
        # Two ways at least, one of which is the first expectation once more.
        assert not found.others or any(way.loss.high == found.loss.high for way in found.others)
        met[bool(found.others)] += 1
    assert min(met[True], met[False]) > 10, met


def _near(exact: Exact, position: tuple[int, ...], closed: Sum) -> bool:
    """Whether two float64 hold a number to a hundred bits of what was added up."""
    with ctx.workprec(256):
        error = abs(arb(float(exact.high[position])) + arb(float(exact.low[position])) - closed.value)
        return bool(error <= TIGHT * closed.size + FLOOR)
