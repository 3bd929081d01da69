"""What an implementation may do: the roundings that its answer is allowed to contain.

Every number here counts operations of a correct implementation or is a property of the dtype; none is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cases.dtypes import DType

EXP_ULPS: Final = 2.0
"""Relative error of exp in units of u: an exponential is within one ulp, and one ulp is at most 2u."""

LOG_ULPS: Final = 2.0
"""Relative error of log in units of u: within one ulp, as exp."""

SIGMOID_ULPS: Final = 4.0
"""Relative error of sigmoid in units of u: within two ulps."""

DIVISION_ROUNDINGS: Final = 2.0
"""A quotient may be formed as a product with a rounded reciprocal."""

STORED_ADDITIONS: Final = 3.0
"""Partial results that may be stored, hence rounded, while contributions to one gradient meet."""


COARSEST_ACCUMULATOR: Final = 2.0**-24
"""Unit roundoff of float32: sums in less are a fault, but for a contract that says otherwise."""


@dataclass(frozen=True)
class Contract:
    """Rounding in one dtype.

    * `u`: unit roundoff of elementwise operations, whose results are stored in the dtype.
    * `u_sum`: unit roundoff of a reduction: at least float32.
    * `eta`: absolute error of one operation that underflows.
    * `largest`: beyond it an intermediate overflows.
    * `exp_more`: relative error of an exponential beyond `EXP_ULPS`, in units of u.
    * `exp_argument`: relative error, in units of u, that an exponential's argument gets before it is raised.
    """

    u: float
    u_sum: float
    eta: float
    largest: float
    exp_more: float = 0.0
    exp_argument: float = 0.0

    @property
    def is_ordinary(self) -> bool:
        """Whether nothing is allowed beyond what every implementation may do."""
        return self.exp_more == self.exp_argument == 0.0 and self.u_sum <= COARSEST_ACCUMULATOR

    @classmethod
    def of(cls, dtype: DType) -> Contract:
        """The standard contract: round to nearest, exp within one ulp, sums in at least float32."""
        return cls(dtype.unit_roundoff, dtype.accumulator_roundoff, dtype.underflow, dtype.largest)

    def gamma(self, additions: int) -> float:
        """Relative error of a chain of `additions` additions, in any order: n u / (1 - n u).

        Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, lemma 3.1.
        """
        if self.u_sum > COARSEST_ACCUMULATOR:
            # Where n u may exceed 1 the lemma says nothing; Rump's bound (n - 1) u holds for any n (BIT 52, 2012).
            # Beside the additions, each term is rounded to the accumulator.
            return (additions + 1) * self.u_sum
        nu = additions * self.u_sum
        return nu / (1.0 - nu)

    def meeting(self, contributions: int) -> float:
        """Relative error when several contributions to one gradient are added up.

        Two or three are added pairwise in the dtype; many are a reduction whose result is stored.
        """
        additions = contributions - 1
        return min(additions * self.u, self.gamma(additions) + STORED_ADDITIONS * self.u)
