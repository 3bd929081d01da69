"""Which number of a one-parameter family explains a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from cases.case import Case
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Explanation, share
from harness.signature.factors import Interval, short_number
from harness.signature.families import Family, families
from oracles.batched.dispatch import expect
from oracles.space.names import variant_of
from oracles.space.pieces import Pieces

_STEPS = 60
_MOST_TOKENS = 24


def fitted(evidence: Evidence) -> Iterator[Explanation]:
    """The families of which one number explains the cases that tell of it."""
    small = [one for one in evidence.numbers if one.case.batch.tokens <= _MOST_TOKENS]
    cases = sorted(small, key=lambda one: one.case.batch.tokens)
    if not cases:
        return
    for family in families():
        number = _number(family, cases)
        if number:
            words = family.words(number)
            yield Explanation(words, share(evidence, _explains(family, float(number))))


def _explains(family: Family, number: float) -> Callable[[Answered], bool]:
    def explains(one: Answered) -> bool:
        made = _made(family, one.case, number)
        if made is None or not family.concerns(one.case):
            return one.is_right
        return one.explained_by(expect(made), made)

    return explains


def _number(family: Family, cases: Sequence[Answered]) -> str:
    """The shortest number that the losses of the first few cases have in common; "" where there is none."""
    low, high, told = -float("inf"), float("inf"), 0
    for one in cases:
        if not family.concerns(one.case):
            return ""
        found = _solutions(family, one)
        if found is None:
            continue
        fitting = [(max(low, part.low), min(high, part.high)) for part in found]
        fitting = [part for part in fitting if part[0] <= part[1]]
        if not fitting:
            return ""
        low, high = min(fitting, key=lambda part: part[1] - part[0])
        told += 1
        if told == 3:
            break
    return short_number(low, high) if told >= 2 or (told and len(cases) == 1) else ""


def _solutions(family: Family, one: Answered) -> list[Interval] | None:
    """Where the loss of a case is that of the family; None where the case says nothing of the number."""
    answer = one.outcome.loss
    assert answer is not None, "asked of numbers only"
    bound = float(one.expectation.loss.bound[0])

    def off(number: float) -> float | None:
        made = _made(family, one.case, number)
        if made is None:
            return None
        return float(Pieces(made).loss(variant_of(made.spec)).value) - answer

    points = [(number, gap) for number in sorted(family.grid) if (gap := off(number)) is not None]
    if not points or all(abs(gap - points[0][1]) <= bound for _, gap in points):
        return None
    found = []
    for (left, below), (right, above) in pairwise(points):
        if (below <= 0.0) != (above <= 0.0) or min(abs(below), abs(above)) <= bound:
            found.append(_between(off, (left, below), (right, above), bound))
    return found


def _between(
    off: Callable[[float], float | None], left: tuple[float, float], right: tuple[float, float], bound: float
) -> Interval:
    """The numbers between two others whose loss is within the bound; it rises or falls between them."""
    sign = 1.0 if right[1] >= left[1] else -1.0
    ends = [_edge(off, left, right, sign, level) for level in (-bound, bound)]
    return Interval(min(ends), max(ends))


def _edge(
    off: Callable[[float], float | None],
    left: tuple[float, float],
    right: tuple[float, float],
    sign: float,
    level: float,
) -> float:
    """Where the loss passes a level, by bisection and secants in turn."""
    (a, at_a), (b, at_b) = (left[0], sign * left[1] - level), (right[0], sign * right[1] - level)
    if at_a >= 0.0:
        return a
    if at_b <= 0.0:
        return b
    for step in range(_STEPS):
        middle = (a + b) / 2 if step % 3 == 2 else a + (b - a) * at_a / (at_a - at_b)
        gap = off(middle)
        if gap is None or not a < middle < b:
            break
        here = sign * gap - level
        if here <= 0.0:
            a, at_a = middle, here
        if here >= 0.0:
            b, at_b = middle, here
        if b - a <= 1e-15 * max(abs(a), abs(b)):
            break
    return (a + b) / 2


def _made(family: Family, case: Case, number: float) -> Case | None:
    try:
        return family.made(case, number)
    except ValueError:
        # A case that there cannot be, such as an epsilon of 1.
        return None
