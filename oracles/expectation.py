"""What an implementation must answer: the exact loss and gradient, and how far rounding may move them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt
from flint import arb

from cases.case import Case
from cases.dtypes import FloatArray
from oracles.completions import Formula
from oracles.contract import Contract
from oracles.kl import separate_kl
from oracles.registry import ORACLES
from oracles.scalar import Scalar
from oracles.sweep import Gradient, gradient

Flags = npt.NDArray[np.bool_]

SLACK: Final = 1.0 + 2.0**-30
"""Bounds are evaluated in float64; this covers what that loses."""

MOST_JUMPS: Final = 4


@dataclass(frozen=True, eq=False)
class Exact:
    """Exact numbers as unevaluated sums `high + low` of two float64, with the bound on a rounded answer.

    From the literal oracle, `high` is the nearest float64 and `low` holds the next 53 bits; from the oracle on
    arrays both may be further off. `bound` includes what they leave out.
    """

    high: FloatArray
    low: FloatArray
    bound: FloatArray

    def error(self, answer: FloatArray) -> FloatArray:
        """Absolute error of an answer, elementwise; NaN where the answer is not finite."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.abs((answer - self.high) - self.low)


@dataclass(frozen=True, eq=False)
class Expectation:
    """The exact answer to a case.

    * `loss`: a scalar; `loss_overflows` where an intermediate may exceed the dtype.
    * `gradients`: one or more outcomes of shape (B, T), of which an element may match any; masked positions
      are exactly 0 with bound 0.
    * `hull`: least and greatest derivative, each (B, T), where several undecided decisions enter an element;
      NaN where they do not; None where no element has any.
    * `gradient_overflows (B, T)`: elements that depend on an intermediate that may exceed the dtype.
    * `others`: what may be expected instead where rounding can decide that the value jumps (off-policy mask);
      loss and gradient must match one and the same expectation.
    """

    loss: Exact
    loss_overflows: bool
    gradients: tuple[Exact, ...]
    hull: tuple[FloatArray, FloatArray] | None
    gradient_overflows: Flags
    others: tuple[Expectation, ...] = ()

    @property
    def undecided(self) -> bool:
        """Whether rounding may decide a `minimum` or a `clip` either way."""
        return len(self.gradients) > 1


def expect(case: Case, contract: Contract | None = None) -> Expectation:
    """Evaluate the oracle of a case, with the bound of its dtype or of another contract."""
    first, undecided = _expect(case, (), contract)
    if not undecided:
        return first
    # Every way of deciding the first few: more lie within rounding of a threshold at once in no real case.
    ways = product((False, True), repeat=min(undecided, MOST_JUMPS))
    return replace(first, others=tuple(_expect(case, assumed, contract)[0] for assumed in ways))


def _expect(case: Case, assumed: tuple[bool, ...], contract: Contract | None) -> tuple[Expectation, int]:
    """One expectation, and how many jumps rounding leaves undecided."""
    formula = Formula.of(case, assumed, contract)
    loss = ORACLES[case.spec.loss_type].loss(formula)
    apart = separate_kl(formula)
    if apart is not None:
        loss = loss + apart
    return expectation_of(case, formula, loss), formula.jumps.undecided


def expectation_of(case: Case, formula: Formula, loss: Scalar) -> Expectation:
    """What to expect of an implementation of a loss that is written over a formula's view of a case."""
    positions = list(formula.leaves)
    slopes = gradient(loss, list(formula.leaves.values()))
    overflows = np.zeros(case.batch.mask.shape, dtype=bool)
    for position, leaf in formula.leaves.items():
        overflows[position] = leaf.index in formula.tape.overflowing
    return Expectation(
        loss=_exact([loss.value], [loss.radius]),
        loss_overflows=formula.tape.overflows,
        gradients=tuple(
            _spread(_exact(outcome.values, outcome.radii), positions, overflows.shape)
            for outcome in slopes.outcomes
        ),
        hull=_hull(slopes, positions, overflows.shape),
        gradient_overflows=overflows,
    )


def _exact(values: Sequence[arb], radii: Sequence[float]) -> Exact:
    high = [float(value) for value in values]
    low, bound = [], []
    for value, nearest, radius in zip(values, high, radii, strict=True):
        if not np.isfinite(nearest):
            low.append(0.0)
            bound.append(np.inf)
            continue
        rest = value - arb(nearest)
        low.append(float(rest))
        # What two float64 leave out, and the ball's own radius.
        own = float(rest.rad()) + abs(low[-1]) * 2.0**-52
        bound.append(np.inf if np.isnan(radius) else radius * SLACK + (own if radius or own > 1e-300 else 0.0))
    return Exact(np.array(high), np.array(low), np.array(bound))


def _spread(exact: Exact, positions: list[tuple[int, int]], shape: tuple[int, ...]) -> Exact:
    arrays = [np.zeros(shape) for _ in range(3)]
    if positions:
        rows, columns = (list(axis) for axis in zip(*positions, strict=True))
        for array, values in zip(arrays, (exact.high, exact.low, exact.bound), strict=True):
            array[rows, columns] = values
    return Exact(*arrays)


def _hull(
    slopes: Gradient, positions: list[tuple[int, int]], shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray] | None:
    if slopes.hull is None:
        return None
    least, greatest = np.full(shape, np.nan), np.full(shape, np.nan)
    for position, bounds in zip(positions, slopes.hull.bounds, strict=True):
        if bounds is not None:
            least[position], greatest[position] = (float(bound) for bound in bounds)
    return least, greatest
