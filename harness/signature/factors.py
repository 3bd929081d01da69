"""Whether answers are the exact ones times a factor, and which quantity of the batch the factor is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from cases.dtypes import FloatArray
from harness.signature.evidence import Answered
from harness.signature.quantities import quantities
from oracles.expectation import Exact

MOSTLY = 0.75
"""An explanation of so many cases is told where none explains all."""

_MOST_DIGITS = 4
_ENOUGH = 3
"""So many cases must have a number in common."""

_TELLING = 8.0
"""A number says something of a factor where it is so many times its own bound."""


@dataclass(frozen=True)
class Interval:
    """The factors that rounding admits."""

    low: float
    high: float

    def __contains__(self, factor: float) -> bool:
        slack = 1e-12 * max(abs(self.low), abs(self.high))
        return self.low - slack <= factor <= self.high + slack

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2


def factor_of(got: FloatArray, exact: FloatArray, bound: FloatArray) -> Interval | None:
    """The factors k for which every `got` is k times `exact`, within the bound; None where there is none.

    None too where no number is large enough to tell.
    """
    scale = np.abs(exact)
    telling = (scale > _TELLING * bound) & np.isfinite(got)
    if not telling.any() or not np.isfinite(got).all():
        return None
    # The rounding of the target's own answer is that of the exact one, times the factor.
    ratio = got[telling] / exact[telling]
    slack = bound[telling] / scale[telling] * np.maximum(np.abs(ratio), 1.0)
    low, high = float(np.max(ratio - slack)), float(np.min(ratio + slack))
    if low > high:
        return None
    small = ~telling
    leeway = np.maximum(abs(high), 1.0) * bound[small] * (1.0 + _TELLING)
    if (np.abs(got[small] - (low + high) / 2 * exact[small]) > leeway).any():
        return None
    return Interval(low, high)


def loss_factor(one: Answered) -> Interval | None:
    """The factor of the loss."""
    assert one.outcome.loss is not None, "asked of numbers only"
    exact = one.expectation.loss
    return factor_of(np.array([one.outcome.loss]), exact.high, exact.bound)


def gradient_factor(one: Answered) -> Interval | None:
    """The factor of the whole gradient, where one outcome of it has one."""
    assert one.outcome.gradient is not None, "asked of numbers only"
    mask = one.case.batch.mask
    for exact in one.expectation.gradients:
        found = factor_of(one.outcome.gradient[mask], exact.high[mask], exact.bound[mask])
        if found is not None:
            return found
    return None


def row_factors(one: Answered) -> list[tuple[int, Interval]]:
    """The factor of each completion's gradient, where every completion that tells has one; else nothing."""
    assert one.outcome.gradient is not None, "asked of numbers only"
    exact: Exact = one.expectation.gradients[0]
    found = []
    for row in np.flatnonzero(one.case.batch.lengths):
        mask = one.case.batch.mask[row]
        got, high, bound = one.outcome.gradient[row][mask], exact.high[row][mask], exact.bound[row][mask]
        if not (np.abs(high) > _TELLING * bound).any():
            continue
        factor = factor_of(got, high, bound)
        if factor is None:
            return []
        found.append((int(row), factor))
    return found


def named_factor(cases: Sequence[tuple[Answered, Interval]]) -> str:
    """The quantity that is the factor in every case; "" where none is.

    A constant that no quantity is, is told as a number where it is the same in all.
    """
    if not cases:
        return ""
    left: dict[str, None] | None = None
    for one, interval in cases:
        fitting = dict.fromkeys(name for name, value in quantities(one.case) if value in interval)
        left = fitting if left is None else {name: None for name in left if name in fitting}
    if all(1.0 in interval for _, interval in cases):
        return ""
    if left:
        return next(iter(left))
    low = max(interval.low for _, interval in cases)
    high = min(interval.high for _, interval in cases)
    return short_number(low, high) if low <= high and len(cases) >= _ENOUGH else ""


def short_number(low: float, high: float) -> str:
    """The shortest decimal number in a range, if it is short: a long one is no one's intention."""
    middle = (low + high) / 2
    for digits in range(1, _MOST_DIGITS + 1):
        for text in (f"{middle:.{digits}g}", repr(float(1 + Decimal(f"{middle - 1:.{digits - 1}g}")))):
            if low <= float(text) <= high and math.isfinite(float(text)):
                return text
    return ""


def row_quantities(one: Answered, row: int) -> Iterator[tuple[str, float]]:
    """Numbers of one completion that its wrong factor may be."""
    batch = one.case.batch
    length, columns = int(batch.lengths[row]), batch.columns
    filled = batch.lengths[batch.lengths > 0]
    named = {
        "its length": float(length),
        "its length / T": length / columns,
        "its length / mean length": length / float(filled.mean()),
        "its length x B / N": length * batch.rows / float(batch.tokens),
        "its length / max_completion_length": length / one.case.spec.max_completion_length,
        "its advantage": float(batch.token_advantages[row][batch.mask[row]][0]),
        "its length squared": float(length * length),
        "sqrt(its length)": math.sqrt(length),
        "its length / (its length + 1)": length / (length + 1),
        "its length / longest completion": length / int(filled.max()),
        "its length / (T + 1)": length / (columns + 1),
    }
    if length > 1:
        named["its length / (its length - 1)"] = length / (length - 1)
    named |= _of_micro_batch(one, row)
    ratio = batch.token_importance_ratio
    if ratio is not None:
        named["its importance ratio"] = float(ratio[row][batch.mask[row]][0])
    yield from named.items()
    for name, value in named.items():
        if value:
            yield f"1 / ({name})", 1.0 / value


def _of_micro_batch(one: Answered, row: int) -> dict[str, float]:
    """What a completion's factor is where its micro-batch is counted twice, or cut in two halves."""
    batch = one.case.batch
    micro = next(part for rank in one.case.split.judged(batch.rows) for part in rank if row in part)
    middle = len(micro) // 2
    half = micro if not middle else micro[:middle] if row in micro[:middle] else micro[middle:]
    tokens, own = (int(batch.lengths[list(rows)].sum()) for rows in (micro, half))
    halves = 2 if middle else 1
    larger = micro[: -(-len(micro) // 2)]
    own_half = sum(int(batch.lengths[other]) for other in micro if (other in larger) == (row in larger))
    chunks = {
        f"the tokens of its micro-batch / ({size}-completion chunks x those of its chunk)": tokens
        / (count * in_chunk)
        for size, count, in_chunk in _chunks(batch.lengths, micro, row)
    }
    return {
        **chunks,
        "the tokens of its micro-batch": float(tokens),
        "the completions of its micro-batch": float(len(micro)),
        "the tokens of its micro-batch / those of its half of it": tokens / own,
        "the tokens of its micro-batch / (2 x those of its half of it)": tokens / (halves * own),
        "the tokens of its micro-batch / (2 x those of its half of it, the larger first)": tokens
        / (halves * own_half),
        "the completions of its micro-batch / those of its half of it": len(micro) / len(half),
    }


def _chunks(lengths: Any, micro: Sequence[int], row: int) -> Iterator[tuple[int, int, int]]:
    """Sizes of chunks that a micro-batch may be cut into, how many there are, and the tokens of a completion's."""
    for size in (2, 4, 8):
        parts = [list(micro[start : start + size]) for start in range(0, len(micro), size)]
        own = next(part for part in parts if row in part)
        yield size, len(parts), int(lengths[own].sum())


def named_row_factor(cases: Sequence[Answered]) -> str:
    """The quantity of a completion that its gradient's factor is, in all completions of all cases."""
    left: dict[str, None] | None = None
    differs = False
    for one in cases:
        if one.expectation.undecided or one.expectation.gradient_overflows.any():
            continue
        factors = row_factors(one)
        if not factors:
            return ""
        for row, interval in factors:
            differs = differs or 1.0 not in interval
            fitting = dict.fromkeys(name for name, value in row_quantities(one, row) if value in interval)
            left = fitting if left is None else {name: None for name in left if name in fitting}
    return next(iter(left)) if left and differs else ""


def tells(one: Answered) -> bool:
    """Whether a gradient element is larger than its bound."""
    exact = one.expectation.gradients[0]
    return bool((np.abs(exact.high) > exact.bound).any())


def factor_words(cases: Sequence[Answered]) -> str:
    """What the loss and the gradient are multiplied by in every case, in words; "" where it is no one thing."""
    gradients = [(one, found) for one in cases if (found := gradient_factor(one)) is not None]
    losses = [(one, found) for one in cases if (found := loss_factor(one)) is not None]
    if not cases or len(gradients) < MOSTLY * len(cases):
        return ""
    gradient, loss = named_factor(gradients), named_factor(losses)
    same_loss = all(1.0 in found for _, found in losses)
    same_gradient = all(1.0 in found for _, found in gradients)
    if same_loss and same_gradient:
        return ""
    if same_loss and gradient:
        return f"gradient x {gradient}, loss right"
    if same_gradient and loss:
        return f"loss x {loss}, gradient right"
    if gradient and gradient == loss:
        return "loss and gradient with the wrong sign" if gradient == "-1" else f"loss and gradient x {gradient}"
    return f"gradient x {gradient}" if gradient else ""
