"""Under every convention the exact losses and gradients are those of the closed forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any, Final

import pytest
from admission import Seen, assert_admitted
from closed_forms import ClosedForm
from closed_forms_options import closed_form_with_options

from cases.case import Case
from cases.conventions import (
    CispoClip,
    Conventions,
    EmptyRows,
    KLAggregation,
    KLBounded,
    SequenceGradient,
    WindowTokens,
)
from cases.descriptions import OPTIONS, Description
from cases.dtypes import DTYPES
from cases.hyperparameters import case_for
from cases.pairwise import covering
from cases.realisation import realise
from cases.spec import KLEstimator, Level, LossType
from harness.generation import draw

CASES: Final = 600
LARGEST: Final = 36
"""Positions of a batch: what holds for a sum of two completions holds for eight."""

CONVENTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "empty_rows": tuple(EmptyRows),
    "window_tokens": tuple(WindowTokens),
    # As libraries have them, on one side, and so near that they act in every other case.
    "log_ratio_bounds": ((None, None), (-20.0, 20.0), (None, 10.0), (-0.125, 0.1)),
    "kl_log_ratio_bound": (None, 20.0, 0.3),
    "kl_bound": (None, 10.0, 0.1),
    "kl_bounded": tuple(KLBounded),
    "kl_aggregation": tuple(KLAggregation),
    "dual_clip": (None, 3.0, 1.1),
    "sequence_gradient": tuple(SequenceGradient),
    "cispo_clip": tuple(CispoClip),
    "denominator_epsilon": (0.0, 1e-8, 0.5),
}
CELLS: Final[dict[str, tuple[Any, ...]]] = {
    "level": tuple(Level),
    "beta": (0.04, 1.0, 0.0),
    "kl_estimator": tuple(KLEstimator),
    "dtype": tuple(DTYPES.values()),
}
COMBINATIONS: Final = covering({**CONVENTIONS, **CELLS})

ROWS: Final = (LossType.GRPO, LossType.DR_GRPO, LossType.SAPO, LossType.LUSPO, LossType.GMPO)
WINDOW: Final = (LossType.DAPO, LossType.CISPO, LossType.VESPO)
CONCERNED: Final = {
    **dict.fromkeys(CONVENTIONS, tuple(LossType)),
    "empty_rows": ROWS,
    "window_tokens": WINDOW,
    "dual_clip": tuple(loss_type for loss_type in LossType if loss_type.clips),
    "cispo_clip": (LossType.CISPO,),
}
"""The losses that a convention may change."""

KL_ONLY: Final = {
    "sequence_gradient": (LossType.CISPO, LossType.VESPO, LossType.GMPO),
    "log_ratio_bounds": (LossType.VESPO,),
}
"""Those that it changes through a bias-corrected KL term only."""


def test_every_convention_is_combined() -> None:
    """A convention that is added without a closed form is missed here."""
    assert set(CONVENTIONS) == {field.name for field in fields(Conventions)} - {"padding"}


@pytest.fixture(scope="module")
def descriptions() -> list[Description]:
    """Small descriptions: as drawn, and with the pairwise combinations of options in turn."""
    combinations = covering(OPTIONS)
    taken = []
    for number, drawn in enumerate(draw(600, 47)):
        taken += [drawn, replace(drawn, **combinations[number % len(combinations)])]
    return [one for one in taken if one.row_count * one.columns <= LARGEST]


def _case(description: Description, number: int, loss_type: LossType) -> Case:
    # A turn later the combinations meet descriptions of another kind.
    turn = number + number // len(COMBINATIONS) + 7 * list(LossType).index(loss_type)
    chosen = dict(COMBINATIONS[turn % len(COMBINATIONS)])
    dtype, level, beta, estimator = (chosen.pop(name) for name in ("dtype", "level", "beta", "kl_estimator"))
    case = case_for(description, realise(description, dtype, level), loss_type, level, beta)
    return replace(case, spec=replace(case.spec, kl_estimator=estimator, conventions=Conventions(**chosen)))


def _without(case: Case, name: str) -> Case:
    """The case without one of its conventions."""
    conventions = replace(case.spec.conventions, **{name: getattr(Conventions(), name)})
    return replace(case, spec=replace(case.spec, conventions=conventions))


def _apart(ours: ClosedForm, theirs: ClosedForm) -> bool:
    """Whether two answers are certainly not one."""
    if not ours.loss.value.overlaps(theirs.loss.value):
        return True
    return any(not found.value.overlaps(theirs.gradient[at].value) for at, found in ours.gradient.items())


@pytest.mark.parametrize("loss_type", LossType)
def test_oracle_under_conventions_is_the_closed_form(loss_type: LossType, descriptions: list[Description]) -> None:
    """Whatever conventions meet, loss and gradient equal the ones derived by hand; each convention tells."""
    seen, changed = Seen(), Counter[str]()
    assert len(descriptions) >= CASES
    for number, description in enumerate(descriptions[:CASES]):
        case = _case(description, number, loss_type)
        closed = closed_form_with_options(case)
        assert_admitted(case, closed, seen)
        for name in CONVENTIONS:
            plain = _without(case, name)
            if plain != case and _apart(closed, closed_form_with_options(plain)):
                changed[name] += 1
    for name, concerned in CONCERNED.items():
        least = 5 if loss_type not in KL_ONLY.get(name, ()) else 2
        assert (changed[name] >= least) if loss_type in concerned else (changed[name] == 0), (name, changed)
    assert seen.elements["undecided"] < 0.25 * seen.elements["decided"]
