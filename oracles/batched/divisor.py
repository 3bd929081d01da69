"""What arrays are divided by: positive counts, one for all elements or one each, and constants of a formula."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cases.dtypes import DType, FloatArray
from oracles.batched.arithmetic import arithmetic_for
from oracles.batched.double_double import Floats, Value
from oracles.contract import DIVISION_ROUNDINGS, Contract
from oracles.count import Count

Integers = npt.NDArray[np.intp]


class Divisor(NamedTuple):
    """A divisor with the roundings that dividing by it may cost.

    `rounding` is relative; `steps` counts the operations that may underflow; `unit` says where it is the count 1,
    by which nothing divides.
    """

    exact: Value
    size: Floats
    rounding: Floats
    steps: Floats
    unit: npt.NDArray[np.bool_] | bool


@lru_cache(maxsize=4096)
def holds(dtype: DType, value: float) -> bool:
    """Whether the dtype represents the number exactly."""
    return dtype.holds(value)


@lru_cache(maxsize=1024)
def by_count(count: Count, dtype: DType, contract: Contract) -> Divisor:
    """One count for all elements."""
    size = float(count.value)
    relative = 0.0 if holds(dtype, size) else contract.u
    rounding = DIVISION_ROUNDINGS * count.roundings * contract.u + relative
    return Divisor(
        arithmetic_for(contract).fraction(count.value), size, rounding, float(count.steps), count.value == 1
    )


_NOTHING: Final = Divisor((1.0, 0.0), 1.0, 0.0, 0.0, True)
"""The count 1, however it came about."""


def by_counts(counts: Sequence[Count], dtype: DType, contract: Contract) -> Divisor:
    """One count for each element."""
    if len(set(counts)) == 1:
        return by_count(counts[0], dtype, contract)
    each = [_NOTHING if count.value == 1 else by_count(count, dtype, contract) for count in counts]
    high, low = np.array([one.exact for one in each]).T
    size, rounding, steps = (np.array([one[at] for one in each]) for at in (1, 2, 3))
    unit = np.array([one.unit for one in each])
    return Divisor((high, low if low.any() else 0.0), size, rounding, steps, unit if unit.any() else False)


def by_tokens(tokens: Integers, epsilon: float, dtype: DType, contract: Contract) -> Divisor:
    """A number of tokens for each element, at least 1, with what the conventions add to it."""
    if epsilon:
        # Never 1 and rarely held: one by one, as the literal oracle has it.
        counts = [Count.of(int(number)) for number in tokens]
        counts = [Count(c.value + Fraction(epsilon), c.roundings + 1, c.steps + 1) for c in counts]
        return by_counts(counts, dtype, contract)
    size = tokens.astype(np.float64)
    roundings = ((tokens & (tokens - 1)) != 0).astype(np.float64)
    rounding = (DIVISION_ROUNDINGS * contract.u) * roundings
    if tokens.max() > 2**dtype.precision:
        held: FloatArray = np.array([holds(dtype, float(number)) for number in tokens], dtype=np.float64)
        rounding = rounding + contract.u * (1.0 - held)
    unit = tokens == 1
    return Divisor((size, 0.0), size, rounding, (~unit).astype(np.float64), unit if unit.any() else False)
