"""Numbers that a formula divides by."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple


class Count(NamedTuple):
    """A positive number that a formula divides by, made up of factors that an implementation may divide by apart.

    `roundings` counts those that are no power of two, since dividing by one rounds nothing; `steps` counts all but
    1, since any of them may underflow.
    """

    value: Fraction
    roundings: int
    steps: int

    @classmethod
    def of(cls, *factors: int | Fraction) -> Count:
        """The product of some factors."""
        return cls(
            value=math.prod(map(Fraction, factors), start=Fraction(1)),
            roundings=sum(not _is_power_of_two(factor) for factor in factors),
            steps=sum(factor != 1 for factor in factors),
        )

    def times(self, *factors: int | Fraction) -> Count:
        """The count with further factors."""
        more = Count.of(*factors)
        return Count(self.value * more.value, self.roundings + more.roundings, self.steps + more.steps)


def _is_power_of_two(factor: int | Fraction) -> bool:
    part = Fraction(factor)
    return part.numerator & (part.numerator - 1) == 0 and part.denominator & (part.denominator - 1) == 0
