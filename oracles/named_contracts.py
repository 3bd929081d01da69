"""Contracts by name: what a kernel may do beyond the ordinary contract, if it says so.

A switch counts operations of a way to compute; it is stated, never fitted. Bounds under one are those of the
literal oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from cases.case import Case
from cases.dtypes import DType
from oracles.contract import Contract
from oracles.expectation import Expectation, expect

ORDINARY: Final = "ordinary"
FAST_EXP: Final = "fast_exp"


def fast_exp(dtype: DType) -> Contract:
    """An exponential as a fast unit's `exp2(x log2(e))`: its argument rounded once more, and within two ulps."""
    return replace(Contract.of(dtype), exp_more=2.0, exp_argument=1.0)


def accumulates_in(dtype: DType, accumulator: DType) -> Contract:
    """Sums are accumulated in a dtype of its own, which may be coarser than float32."""
    return replace(Contract.of(dtype), u_sum=accumulator.unit_roundoff)


NAMED: Final[Mapping[str, Callable[[DType], Contract]]] = MappingProxyType(
    {ORDINARY: Contract.of, FAST_EXP: fast_exp}
)
"""The contracts that a user can state."""


def expect_under(case: Case, contract: Contract) -> Expectation:
    """What to expect of an implementation that keeps another contract than the ordinary one."""
    return expect(case, contract)
