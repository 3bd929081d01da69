"""Make a failing case small and its numbers readable, while it keeps failing.

Greedy, on the numbers themselves, with a budget that counts questions and their positions, not seconds: the same
case shrinks to the same case on every machine. No completion is emptied: whether one without tokens counts is
another question. Of a large batch, blocks of completions and of positions are taken out until it is small, or none
can be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FloatArray
from cases.large import is_large
from cases.spec import KLEstimator
from cases.split import Split

Change = dict[str, Any]
Step = Callable[[Case], Iterator[Change]]

BUDGET: Final = 160
POSITIONS: Final = 2**22
"""Of all batches that are asked about: sixteen of (64, 4096), or more that are smaller."""

_DECIMALS: Final = (0, 1, 2)


def shrink(case: Case, fails: Callable[[Case], bool], budget: int = BUDGET) -> Case:
    """The smallest case found that still fails, after at most `budget` calls of `fails`.

    There are fewer where their batches have more than `POSITIONS` positions together.
    """
    asked: set[str] = {case.id}
    small_steps = _ONCE_LARGE if is_large(case.batch) else _STEPS
    improved, positions = True, POSITIONS
    while improved and budget > 0 and positions > 0:
        improved = False
        for candidate in _simpler(case, _OF_LARGE if is_large(case.batch) else small_steps):
            if candidate.id in asked:
                continue
            asked.add(candidate.id)
            budget -= 1
            positions -= candidate.batch.mask.size
            if fails(candidate):
                case, improved = candidate, True
                break
            if budget == 0 or positions <= 0:
                break
    return case


def _simpler(case: Case, steps: Sequence[Step]) -> Iterator[Case]:
    """Cases one step simpler, the largest steps first."""
    for make in steps:
        for changed in make(case):
            try:
                yield replace(case, **changed)
            except ValueError:
                # A step that the split or the loss does not admit.
                continue


def _splits(case: Case) -> Iterator[Change]:
    """No split, then one number of it at its smallest, with the rows as they are or the first micro-batches'."""
    split, batch = case.split, case.batch
    simpler = [Split()]
    for name in ("ranks", "accumulation_steps", "steps_per_generation"):
        with contextlib.suppress(ValueError):
            simpler.append(replace(split, **{name: 1}))  # type: ignore[arg-type]  # all three are integers
    simpler.append(replace(split, steps_per_generation=split.accumulation_steps))
    for other in simpler:
        if other != split:
            size = batch.rows // split.micro_batches
            yield {"split": other, "batch": batch.take(range(size * other.micro_batches))}
            yield {"split": other}


def _shapes(case: Case) -> Iterator[Change]:
    """Without one completion of each micro-batch, without one position, without one token."""
    batch = case.batch
    size = batch.rows // case.split.micro_batches
    for row in reversed(range(size)):
        if size > 1:
            yield {"batch": batch.take([r for r in range(batch.rows) if r % size != row])}
    for column in reversed(range(batch.columns)):
        fewer = batch.lengths - batch.mask[:, column]
        if batch.columns > 1 and not ((fewer == 0) & (batch.lengths > 0)).any():
            yield {"batch": batch.take(columns=[c for c in range(batch.columns) if c != column])}
    for row, column in np.argwhere(batch.mask)[::-1]:
        if batch.lengths[row] > 1:
            mask = batch.mask.copy()
            mask[row, column] = False
            yield {"batch": replace(batch, mask=mask)}


def _blocks(case: Case) -> Iterator[Change]:
    """Without half of the completions of each micro-batch or of the positions, a quarter, an eighth, ..."""
    batch = case.batch
    size, columns = batch.rows // case.split.micro_batches, batch.columns
    for parts in (2**power for power in range(1, max(size, columns).bit_length() + 1)):
        if size >= parts:
            kept = size - size // parts
            yield {"batch": batch.take([row for row in range(batch.rows) if row % size < kept])}
        if columns >= parts:
            left = range(columns - columns // parts)
            if not ((batch.lengths > 0) & ~batch.mask[:, : left.stop].any(axis=1)).any():
                yield {"batch": batch.take(columns=left)}


def _specs(case: Case) -> Iterator[Change]:
    """Without an option of the loss, with plain hyper-parameters."""
    spec = case.spec
    plain = {
        "delta": None,
        "off_policy_mask_threshold": None,
        "kl_estimator": KLEstimator.K3,
        "max_completion_length": case.batch.columns,
    }
    for name, value in plain.items():
        if getattr(spec, name) != value:
            yield {"spec": replace(spec, **{name: value})}  # type: ignore[arg-type]  # each takes its own type


def _batches(case: Case) -> Iterator[Change]:
    """Without an optional tensor, then with readable numbers."""
    yield from _plainer(case)
    for name, values in _tensors(case.batch):
        for simple in _readable(values, case.batch):
            yield {"batch": _with(case.batch, name, simple)}


def _plainer(case: Case) -> Iterator[Change]:
    """Without an optional tensor, or with one that equals another."""
    batch = case.batch
    plain: list[tuple[str, FloatArray | None]] = [("importance_ratio", None), ("sampling_logps", None)]
    if case.spec.beta == 0:
        plain.append(("ref_logps", None))
    if batch.advantages.ndim == 2:
        plain.append(("advantages", batch.advantages[:, 0]))
    plain += [("old_logps", None), ("old_logps", batch.logps), ("ref_logps", batch.logps)]
    for name, values in plain:
        if getattr(batch, name) is not None:
            yield {"batch": _with(batch, name, values)}


def _tensors(batch: Batch) -> Iterator[tuple[str, FloatArray]]:
    """Those that have numbers to be made readable."""
    for name in ("advantages", "logps", "old_logps", "ref_logps", "sampling_logps", "importance_ratio"):
        values = getattr(batch, name)
        if values is not None:
            yield name, values


def _rounded_as_a_whole(case: Case) -> Iterator[Change]:
    """With numbers of few decimals, a tensor at a time."""
    for name, values in _tensors(case.batch):
        for simple in _all_readable(values, case.batch):
            if not np.array_equal(simple, values):
                yield {"batch": _with(case.batch, name, simple)}


def _with(batch: Batch, name: str, values: FloatArray | None) -> Batch:
    return replace(batch, **{name: values})  # type: ignore[arg-type]  # a float tensor for another


def _readable(values: FloatArray, batch: Batch) -> Iterator[FloatArray]:
    """The numbers with few decimals: all at once, then one by one."""
    yield from _all_readable(values, batch)
    for at in np.ndindex(*values.shape):
        for decimals in _DECIMALS:
            simple = values.copy()
            simple[at] = _rounded(simple[at], decimals)
            if simple[at] != values[at]:
                yield batch.dtype.round(simple)


def _all_readable(values: FloatArray, batch: Batch) -> Iterator[FloatArray]:
    for decimals in _DECIMALS:
        yield batch.dtype.round(_rounded(values, decimals))


def _rounded(values: FloatArray | float, decimals: int) -> FloatArray:
    # Adding 0 makes -0 a plain 0.
    return np.round(values, decimals) + 0.0


_STEPS: Final = (_splits, _shapes, _specs, _batches)
_ONCE_LARGE: Final = (_splits, _blocks, _shapes, _specs, _batches)
_OF_LARGE: Final = (_splits, _blocks, _specs, _plainer, _rounded_as_a_whole)
