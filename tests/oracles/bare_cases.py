"""Drawn cases of the bare losses: no second bound, correction, mask or split."""

from __future__ import annotations

from cases.case import Case
from cases.descriptions import Description
from cases.dtypes import DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.generation import draw


def bare(description: Description) -> Description:
    """The description without the options of its loss."""
    return Description(
        rows=description.rows,
        columns=description.columns,
        bounds=description.bounds,
        horizon=description.horizon,
        on_policy=description.on_policy,
        token_advantages=description.token_advantages,
        seed=description.seed,
    )


def drawn(examples: int, random_seed: int) -> list[Description]:
    """What Hypothesis draws with a seed, bare."""
    return [bare(description) for description in draw(examples, random_seed)]


def bare_case(description: Description, dtype: DType, level: Level, loss_type: LossType, beta: float) -> Case:
    """The case of a description in one cell."""
    return case_for(description, realise(description, dtype, level), loss_type, level, beta)
