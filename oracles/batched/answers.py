"""What was found of the tokens of some cases, as the expectation of each."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from cases.case import Case
from cases.dtypes import FloatArray
from oracles.batched.aggregation import Step
from oracles.batched.arithmetic import Arithmetic, DoubleDouble
from oracles.batched.decisions import NO_SLOPES, Choice, Outcomes, Survey
from oracles.batched.edge import Flags
from oracles.contract import Contract
from oracles.expectation import SLACK, Exact, Expectation

T = TypeVar("T", bound=np.generic)

OWN_FACTOR: Final = 8.0
"""Room for the roundings of our own bound, and of what is of second order in it."""

_LEFT_OUT: Final = 2.0**-52
"""What two float64 leave out, in units of the second."""


class Answers:
    """The losses of some cases, and the gradients that the decisions of their pieces admit."""

    def __init__(
        self,
        cases: Sequence[Case],
        step: Step,
        surveys: Sequence[Survey],
        overflows: Flags,
        contract: Contract,
        arithmetic: Arithmetic,
    ) -> None:
        self._step, self._surveys = step, surveys
        self._is_double = isinstance(arithmetic, DoubleDouble)
        self._slack = SLACK + OWN_FACTOR * arithmetic.unit / min(contract.u, contract.u_sum)
        self._masks = [case.batch.mask for case in cases]
        sizes = [mask.size for mask in self._masks]
        ends = np.cumsum(sizes).tolist()
        self._size = ends[-1]
        self._places = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self._overflows = (overflows | step.overflows).tolist()
        self._outcomes = Outcomes(surveys)
        self._gradients: dict[tuple[Choice, ...], list[FloatArray]] = {}

    def expectation(self, case: int) -> Expectation:
        """What is expected of a case, by its number."""
        high, low = self._step.value
        own = slice(case, case + 1)
        overflows = self._at(self._overflowing, case)
        if self._step.spoils[case]:
            overflows = overflows | self._masks[case]
        return Expectation(
            loss=Exact(high[own], low[own], self._bounds[own]),
            loss_overflows=self._overflows[case],
            gradients=tuple(self._gradient(choice, case) for choice in self._outcomes.choices(case)),
            hull=self._hull(case),
            gradient_overflows=overflows,
        )

    @cached_property
    def _bounds(self) -> FloatArray:
        """What the losses may be off by."""
        bounds = self._step.radius * self._slack + np.abs(self._step.value[1]) * _LEFT_OUT
        return np.where(np.isnan(bounds), np.inf, bounds)

    @cached_property
    def _overflowing(self) -> Flags:
        flags = np.zeros(self._size, dtype=bool)
        for one in self._surveys:
            if one.overflowing is not None:
                flags[one.positions] = one.overflowing
        return flags

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray] | None:
        """Least and greatest derivative where several decisions enter an element, NaN elsewhere."""
        spans = [(one.positions, one.span) for one in self._surveys if one.span is not None]
        if not spans:
            return None
        least, greatest = np.full(self._size, np.nan), np.full(self._size, np.nan)
        for positions, span in spans:
            at = positions[span.several]
            least[at], greatest[at] = span.least[span.several], span.greatest[span.several]
        return least, greatest

    def _hull(self, case: int) -> tuple[FloatArray, FloatArray] | None:
        if self._ends is None:
            return None
        least, greatest = (self._at(values, case) for values in self._ends)
        return None if np.isnan(least).all() else (least, greatest)

    def _gradient(self, choice: Choice, case: int) -> Exact:
        key = tuple(one.taken(choice, case) for one in self._surveys)
        if key not in self._gradients:
            self._gradients[key] = self._spread(key)
        return Exact(*(self._at(values, case) for values in self._gradients[key]))

    def _spread(self, key: tuple[Choice, ...]) -> list[FloatArray]:
        """The gradient of all cases for what a choice comes to in each piece, with its second half and bound."""
        first = next(iter(self._gradients), None)
        if first is None:
            high, bound = np.zeros(self._size), np.zeros(self._size)
            low = np.zeros(self._size) if self._is_double else np.broadcast_to(0.0, self._size)
            others = [True] * len(key)
        else:
            # Most pieces of a large batch are alike in all outcomes.
            high, low, bound = self._gradients[first]
            high, low, bound = high.copy(), low.copy() if self._is_double else low, bound.copy()
            others = [one != other for one, other in zip(key, first, strict=True)]
        for survey, choice, differs in zip(self._surveys, key, others, strict=True):
            if not differs:
                continue
            slopes, at = survey.slopes[choice] or NO_SLOPES, survey.positions
            high[at] = slopes.value[0]
            own = np.where(np.isnan(slopes.radius), np.inf, slopes.radius * self._slack)
            if self._is_double:
                low[at] = slopes.value[1]
                own = own + np.where(slopes.radius > 0.0, np.abs(slopes.value[1]) * _LEFT_OUT, 0.0)
            bound[at] = own
        return [high, low, bound]

    def _at(self, values: npt.NDArray[T], case: int) -> npt.NDArray[T]:
        return values[self._places[case]].reshape(self._masks[case].shape)
