"""What arrays are divided by: positive counts, one for all elements or one each, and constants of a formula."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

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


def by_tokens(tokens: Integers, epsilon: float, dtype: DType, contract: Contract) -> Divisor:
    """A number of tokens for each element, at least 1, with what the conventions add to it."""
    if epsilon:
        # Never 1 and rarely held: one by one, as the literal oracle has it.
        counts = [Count.of(int(number)) for number in tokens]
        counts = [Count(c.value + Fraction(epsilon), c.roundings + 1, c.steps + 1) for c in counts]
        each = [by_count(count, dtype, contract) for count in counts]
        exact = np.array([one.exact for one in each]).T
        size, rounding, steps = (np.array([one[at] for one in each]) for at in (1, 2, 3))
        return Divisor((exact[0], exact[1]), size, rounding, steps, False)
    size = tokens.astype(np.float64)
    roundings = ((tokens & (tokens - 1)) != 0).astype(np.float64)
    rounding = (DIVISION_ROUNDINGS * contract.u) * roundings
    if tokens.max() > 2**dtype.precision:
        held: FloatArray = np.array([holds(dtype, float(number)) for number in tokens], dtype=np.float64)
        rounding = rounding + contract.u * (1.0 - held)
    unit = tokens == 1
    return Divisor((size, 0.0), size, rounding, (~unit).astype(np.float64), unit if unit.any() else False)
