"""Make a failing case small and its numbers readable, while it keeps failing.

Greedy, on the numbers themselves, with a budget that counts questions, not seconds: the same case shrinks to
the same case on every machine. No completion is emptied: whether one without tokens counts is another question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FloatArray

BUDGET: Final = 160

_DECIMALS: Final = (0, 1, 2)


def shrink(case: Case, fails: Callable[[Case], bool], budget: int = BUDGET) -> Case:
    """The smallest case found that still fails, after at most `budget` calls of `fails`."""
    asked: set[str] = {case.id}
    improved = True
    while improved and budget > 0:
        improved = False
        for candidate in _simpler(case):
            if candidate.id in asked:
                continue
            asked.add(candidate.id)
            budget -= 1
            if fails(candidate):
                case, improved = candidate, True
                break
            if budget == 0:
                break
    return case


def _simpler(case: Case) -> Iterator[Case]:
    """Cases one step simpler, the largest steps first."""
    for batch in _batches(case):
        try:
            yield replace(case, batch=batch)
        except ValueError:
            # A step that the split or the loss does not admit.
            continue
    spec = case.spec
    width = case.batch.columns
    if spec.max_completion_length != width:
        yield replace(case, spec=replace(spec, max_completion_length=width))


def _batches(case: Case) -> Iterator[Batch]:
    batch = case.batch
    for row in reversed(range(batch.rows)):
        if batch.rows > 1:
            yield _without(batch, row, axis=0)
    for column in reversed(range(batch.columns)):
        fewer = batch.lengths - batch.mask[:, column]
        if batch.columns > 1 and not ((fewer == 0) & (batch.lengths > 0)).any():
            yield _without(batch, column, axis=1)
    for row, column in np.argwhere(batch.mask)[::-1]:
        if batch.lengths[row] > 1:
            mask = batch.mask.copy()
            mask[row, column] = False
            yield replace(batch, mask=mask)
    if batch.ref_logps is not None and case.spec.beta == 0:
        yield replace(batch, ref_logps=None)
    if batch.advantages.ndim == 2:
        yield replace(batch, advantages=batch.advantages[:, 0])
    if batch.old_logps is not None:
        yield replace(batch, old_logps=None)
        yield replace(batch, old_logps=batch.logps)
    if batch.ref_logps is not None:
        yield replace(batch, ref_logps=batch.logps)
    for name in ("advantages", "logps", "old_logps", "ref_logps"):
        values = getattr(batch, name)
        if values is not None:
            for simple in _readable(values, batch):
                yield replace(batch, **{name: simple})  # type: ignore[arg-type]  # a float tensor for another


def _without(batch: Batch, index: int, axis: int) -> Batch:
    def cut(values: FloatArray) -> FloatArray:
        return np.delete(values, index, axis=axis) if values.ndim > axis else values

    return replace(
        batch,
        logps=cut(batch.logps),
        old_logps=None if batch.old_logps is None else cut(batch.old_logps),
        ref_logps=None if batch.ref_logps is None else cut(batch.ref_logps),
        advantages=cut(batch.advantages),
        mask=np.delete(batch.mask, index, axis=axis),
    )


def _readable(values: FloatArray, batch: Batch) -> Iterator[FloatArray]:
    """The numbers with few decimals: all at once, then one by one."""
    for decimals in _DECIMALS:
        yield batch.dtype.round(_rounded(values, decimals))
    for at in np.ndindex(*values.shape):
        for decimals in _DECIMALS:
            simple = values.copy()
            simple[at] = _rounded(simple[at], decimals)
            if simple[at] != values[at]:
                yield batch.dtype.round(simple)


def _rounded(values: FloatArray | float, decimals: int) -> FloatArray:
    # Adding 0 makes -0 a plain 0.
    return np.round(values, decimals) + 0.0
