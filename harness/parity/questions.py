"""The cases of a cell, which every execution of a target is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from typing import Final

from cases.case import Case
from cases.descriptions import (
    Advantage,
    Bounds,
    Description,
    Horizon,
    Layout,
    OffPolicyMask,
    Ratio,
    Reference,
    Row,
)
from cases.dtypes import BFLOAT16, FLOAT16, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import Level, LossType
from harness.generation import SEEDS_PER_RUN, draw
from harness.plan import Plan

VALUES: Final = 4
"""Cases of each description: same sizes and parameters, other numbers, so that nothing is compiled for them."""


class Purpose(Enum):
    """What a case is asked for.

    * `ORDINARY`: small, of mixed regions.
    * `LONG`: equal summands, so many that an accumulator of half precision cannot hold their sum.
    * `CONTROL`: of the same shape, with so few tokens that any accumulator of the dtype's own adds them up well.
    """

    ORDINARY = "ordinary"
    LONG = "long"
    CONTROL = "control"


@dataclass(frozen=True)
class Question:
    """A case, the regions of input space it is in, and what it is asked for."""

    case: Case
    regions: tuple[str, ...]
    purpose: Purpose


@dataclass(frozen=True)
class CellKey:
    """A cell of the table, whatever executes it."""

    dtype: DType
    loss_type: LossType
    level: Level
    beta: float


def cells_of(plan: Plan) -> Iterator[CellKey]:
    """The cells of a plan, those of one dtype together."""
    for key in product(plan.dtypes, plan.loss_types, plan.levels, plan.betas):
        yield CellKey(*key)


def covering(plan: Plan) -> frozenset[CellKey]:
    """So few of the cells that, in every dtype, each loss type meets each level and each beta."""
    return frozenset(
        CellKey(dtype, loss_type, level, plan.betas[(number + loss + shift) % len(plan.betas)])
        for dtype in plan.dtypes
        for loss, loss_type in enumerate(plan.loss_types)
        for number, level in enumerate(plan.levels)
        for shift in range(0, len(plan.betas), len(plan.levels))
    )


class Questioner:
    """Makes the cases of cells: the designed description first, then what Hypothesis draws with a plan's seed."""

    def __init__(self, plan: Plan) -> None:
        self._seed = plan.seed
        drawn = draw(plan.examples - 1, plan.seed) if plan.examples > 1 else []
        self._descriptions = (_DESIGNED, *(replace(one, off_policy_mask=OffPolicyMask.NONE) for one in drawn))

    def ordinary(self, cell: CellKey) -> Iterator[Question]:
        """The small cases of a cell, `VALUES` of each description in a row."""
        for number, value in product(range(len(self._descriptions)), range(VALUES)):
            # The parity of a seed decides whether there are reference log-probabilities without a KL term.
            seed = self._seed * SEEDS_PER_RUN + 2 * (number * VALUES + value) + number % 2
            yield _question(replace(self._descriptions[number], seed=seed), cell, Purpose.ORDINARY)

    def long(self, cell: CellKey) -> Iterator[Question]:
        """A case of long completions, and its control."""
        for purpose, tokens in ((Purpose.LONG, _columns(cell.dtype)), (Purpose.CONTROL, _FEW)):
            # Of one sign, so that no summands cancel.
            row = Row(Layout.PREFIX, tokens, (Ratio.ONE,), advantage=Advantage.POSITIVE, reference=Reference.EQUAL)
            description = Description(
                (row, row),
                _columns(cell.dtype),
                horizon=Horizon.WIDTH,
                on_policy=True,
            )
            yield _question(replace(description, seed=2 * self._seed), cell, purpose)


_DESIGNED: Final = Description(
    (
        Row(Layout.PREFIX, 3, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
        Row(Layout.FULL, 1, (Ratio.BELOW_LOW, Ratio.INSIDE), advantage=Advantage.NEGATIVE),
        Row(Layout.HOLES, 2, (Ratio.INSIDE,), advantage=Advantage.NEGATIVE, reference=Reference.ABOVE),
        Row(Layout.LEFT_PADDED, 4, (Ratio.BELOW_LOW, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
    ),
    columns=5,
    bounds=Bounds.CLIP_HIGHER,
)
"""Ragged completions of either sign, inside the bounds and beyond both."""


_FEW: Final = 4


def _columns(dtype: DType) -> int:
    """Positions whose equal summands an accumulator of a half type cannot add up: beyond its last integer.

    bfloat16 counts to 2^8, float16 to 2^11; other dtypes are asked what bfloat16 is.
    """
    return 1 << (FLOAT16.precision + 1 if dtype is FLOAT16 else BFLOAT16.precision + 2)


def _question(description: Description, cell: CellKey, purpose: Purpose) -> Question:
    batch = realise(description, cell.dtype, cell.level)
    case = case_for(description, batch, cell.loss_type, cell.level, cell.beta)
    return Question(case, regions_of(case), purpose)
