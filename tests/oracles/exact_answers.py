"""Exact answers to batches of dyadic numbers, which can be shifted, scaled and reordered without rounding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from flint import arb

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FLOAT64, FloatArray
from cases.spec import Level, LossSpec, LossType
from oracles.completions import Formula
from oracles.kl import separate_kl
from oracles.registry import ORACLES
from oracles.scalar import Scalar
from oracles.sweep import gradient

CLIPPED: Final = (LossType.GRPO, LossType.BNPO, LossType.DR_GRPO, LossType.DAPO)
STEP: Final = 2.0**-20
"""Every log-probability is a multiple of it, so that sums of a few are exact."""

SAME: Final = 2.0**-90
DIFFERENT: Final = 2.0**-20
Position = tuple[int, int]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Answer:
    """The exact loss and its gradient at every unmasked position."""

    loss: arb
    gradient: dict[Position, arb]


def answer(case: Case) -> Answer:
    """The oracle's answer to a case in which nothing is undecided."""
    formula = Formula.of(case)
    loss = whole_loss(case, formula)
    (outcome,) = gradient(loss, list(formula.leaves.values())).outcomes
    return Answer(loss.value, dict(zip(formula.leaves, outcome.values, strict=True)))


def whole_loss(case: Case, formula: Formula) -> Scalar:
    """The oracle's loss of a case, with the KL term that is averaged by itself, where there is one."""
    loss = ORACLES[case.spec.loss_type].loss(formula)
    apart = separate_kl(formula)
    return loss if apart is None else loss + apart


def same(ours: arb, theirs: arb) -> bool:
    """Whether two exact numbers of ordinary size are equal, to all the digits they have."""
    return bool(abs(ours - theirs) < SAME)


def different(ours: arb, theirs: arb) -> bool:
    """Whether two exact numbers differ by what no rounding explains."""
    return bool(abs(ours - theirs) > DIFFERENT)


def same_answers(ours: Answer, theirs: Answer, factor: float | arb = 1) -> bool:
    """Whether the loss and every gradient element are `factor` times the other's."""
    return same(ours.loss, theirs.loss * factor) and same_gradients(ours, theirs, factor)


def same_gradients(ours: Answer, theirs: Answer, factor: float | arb = 1) -> bool:
    """Whether every gradient element is `factor` times the other's."""
    return ours.gradient.keys() == theirs.gradient.keys() and all(
        same(value, theirs.gradient[position] * factor) for position, value in ours.gradient.items()
    )


def moved(answered: Answer, rows: Indices | None = None, columns: Indices | None = None) -> Answer:
    """The same numbers with row i moved to `rows[i]` and column t to `columns[t]`."""
    gradient = {
        (at[0] if rows is None else int(rows[at[0]]), at[1] if columns is None else int(columns[at[1]])): value
        for at, value in answered.gradient.items()
    }
    return replace(answered, gradient=gradient)


def dyadic_batches(
    count: int = 25, spread: float = 1.0, on_policy: bool = False, lengths: Iterable[int] | None = None
) -> Iterator[Batch]:
    """Ragged batches with holes whose log-ratios reach `spread`; `lengths` takes full prefixes of those."""
    fixed = None if lengths is None else list(lengths)
    for seed in range(count):
        random = np.random.default_rng(seed)
        rows, columns = (2 * int(random.integers(1, 4)), int(random.integers(2, 7)))
        mask = random.random((rows, columns)) < 0.6
        # Rows of different lengths, none of them empty.
        mask[:, 0] = True
        mask[0] = True
        mask[-1, 1:] = False
        if fixed is not None:
            rows, columns = len(fixed), max(fixed) + 2
            mask = np.arange(columns) < np.array(fixed)[:, None]
        logps = dyadic(random.uniform(-3.0, 0.0, (rows, columns)))
        sizes = random.integers(16, 128, rows) / 64.0
        signs = np.where(np.arange(rows) % 2, 1.0, -1.0)
        yield Batch(
            dtype=FLOAT64,
            logps=logps,
            old_logps=None if on_policy else logps - dyadic(random.uniform(-spread, spread, (rows, columns))),
            ref_logps=logps + dyadic(random.uniform(-1.0, 1.0, (rows, columns))),
            advantages=sizes * signs,
            mask=mask,
        )


def dyadic(values: FloatArray) -> FloatArray:
    """The nearest multiples of `STEP`."""
    return np.rint(values / STEP) * STEP


def case_of(batch: Batch, loss_type: LossType, level: Level, beta: float = 0.5, **options: Any) -> Case:
    """A batch under the default bounds; cispo caps the ratio where the others clip it."""
    bounds = {"epsilon_low": 0.25, "epsilon_high": 1.25 if loss_type is LossType.CISPO else 0.25}
    return Case(
        batch,
        LossSpec(loss_type, level, beta, **{"max_completion_length": 11, **bounds, **options}),
    )


def taking(batch: Batch, rows: Indices | None = None, columns: Indices | None = None) -> Batch:
    """The batch made of these completions and these columns; an index may come twice."""
    rows = np.arange(batch.rows) if rows is None else rows
    columns = np.arange(batch.columns) if columns is None else columns
    names = ("logps", "old_logps", "ref_logps", "mask")
    tensors = {name: getattr(batch, name) for name in names if getattr(batch, name) is not None}
    taken = {name: tensor[np.ix_(rows, columns)] for name, tensor in tensors.items()}
    return replace(batch, advantages=batch.advantages[rows], **taken)


def with_garbage(batch: Batch, seed: int) -> Batch:
    """The batch with other finite numbers wherever it is masked."""
    random = np.random.default_rng(seed)
    names = ("logps", "old_logps", "ref_logps")
    tensors = {name: getattr(batch, name) for name in names if getattr(batch, name) is not None}
    garbage = {
        name: np.where(batch.mask, tensor, dyadic(random.uniform(-50.0, 3.0, tensor.shape)))
        for name, tensor in tensors.items()
    }
    return replace(batch, **garbage)
