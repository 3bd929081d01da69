"""What a script compares an answer with, as Python text: numbers with what rounding allows, or intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from cases.case import Case
from cases.spec import Level
from harness.judge import REPEAT_FACTOR
from harness.reproducer.numbers import WIDTH, array, expected, interval, total, upwards
from oracles.expectation import Exact, Expectation

_NOT_FINITE: Final = "None"


@dataclass(frozen=True)
class OneAnswer:
    """One right answer: numbers, and how far an answer may be from them, as texts."""

    loss: str
    allowed_loss: str
    gradient: str
    allowed_gradient: str

    @classmethod
    def of(cls, expectation: Expectation) -> Self | None:
        """The one right answer there is, or None where rounding or overflow leave more than one."""
        (gradient, *more), loss = expectation.gradients, expectation.loss
        overflows = expectation.loss_overflows or bool(expectation.gradient_overflows.any())
        finite = all(np.isfinite([*exact.high.flat, *exact.bound.flat]).all() for exact in (loss, gradient))
        if more or expectation.others or expectation.hull is not None or overflows or not finite:
            return None
        (of_loss,) = _pairs(loss)
        pairs = np.array(list(_pairs(gradient)), dtype=object).reshape(*gradient.high.shape, 2)
        values, allowed = (array(pairs[..., half].tolist(), len(name)) for half, name in enumerate(_NAMES))
        return cls(*of_loss, values, allowed)


_NAMES: Final = ("expected_gradient = ", "allowed_gradient = ")


def _pairs(exact: Exact) -> Iterator[tuple[str, str]]:
    for high, low, bound in zip(exact.high.flat, exact.low.flat, exact.bound.flat, strict=True):
        yield expected(float(high), float(low), float(bound))


def allowed_apart(expectation: Expectation) -> tuple[str, str]:
    """How far two answers to the same case may be apart, for the loss and for each gradient element, as texts."""
    values = np.array([exact.high for exact in expectation.gradients])
    ends = values.max(axis=0) - values.min(axis=0)
    if expectation.hull is not None:
        ends = np.fmax(ends, expectation.hull[1] - expectation.hull[0])
    bound = REPEAT_FACTOR * np.max([exact.bound for exact in expectation.gradients], axis=0) + ends
    texts = [[upwards(float(number)) for number in row] for row in np.nan_to_num(bound)]
    return upwards(REPEAT_FACTOR * float(expectation.loss.bound[0])), array(texts, len(_NAMES[1]))


def right_answers(case: Case, expectation: Expectation) -> str:
    """Every right answer: pairs of the intervals of the loss and those of each gradient element, as text.

    An interval that is None stands for what is not finite.
    """
    ways = [_way(case, one) for one in (expectation, *expectation.others)]
    # Ways that were put first, and the nominal one among them, may be the same.
    return "[\n" + "".join(f"    {line}\n" for way in dict.fromkeys(ways) for line in way.splitlines()) + "]"


def _way(case: Case, expectation: Expectation) -> str:
    excused = expectation.gradient_overflows
    if case.spec.importance_sampling_level is Level.SEQUENCE:
        excused = np.broadcast_to(excused.any(axis=1, keepdims=True), excused.shape)
    loss = _joined([_around(expectation.loss, (0,))], expectation.loss_overflows)
    rows, columns = case.batch.mask.shape
    lines = []
    for row in range(rows):
        elements = [_element(expectation, (row, column), excused) for column in range(columns)]
        lines += ["        [", *(line for element in elements for line in _indented(element, 12)), "        ],"]
    return "\n".join(["(", *_indented(loss, 4), "    [", *lines, "    ],", "),"])


def _element(expectation: Expectation, at: tuple[int, int], excused: npt.NDArray[np.bool_]) -> list[str]:
    found = [_around(exact, at) for exact in expectation.gradients]
    if expectation.hull is not None:
        least, greatest = (float(end[at]) for end in expectation.hull)
        if np.isfinite(least):
            bound = max(float(exact.bound[at]) for exact in expectation.gradients)
            # The hull's ends are rounded to float64.
            bound += float(np.spacing(max(abs(least), abs(greatest))))
            found.append(interval(Decimal(least), Decimal(greatest), bound))
    return _joined(found, bool(excused[at]))


def _around(exact: Exact, at: Any) -> tuple[str, str]:
    high, low, bound = (float(array[at]) for array in (exact.high, exact.low, exact.bound))
    middle = total(high, low)
    return interval(middle, middle, bound if np.isfinite(high) else 0.0)


def _joined(intervals: list[tuple[str, str]], may_be_infinite: bool) -> list[str]:
    texts = [f"({low}, {high})" for low, high in dict.fromkeys(intervals)]
    return [*texts, _NOT_FINITE] if may_be_infinite else texts


def _indented(intervals: list[str], indent: int) -> list[str]:
    """A list of intervals and a comma, on one line or on several, before `_way` is indented itself."""
    before, line = " " * indent, f"[{', '.join(intervals)}],"
    if indent + 4 + len(line) <= WIDTH:
        return [before + line]
    return [f"{before}[", *(f"{before}    {interval}," for interval in intervals), f"{before}],"]
