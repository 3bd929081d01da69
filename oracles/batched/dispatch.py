"""Which of the two oracles evaluates a case: they say the same, and each is the faster one at its sizes."""

from __future__ import annotations

from typing import Final

from cases.case import Case
from oracles.batched.arithmetic import Double, arithmetic_for
from oracles.batched.expectation import expect as on_arrays
from oracles.contract import Contract
from oracles.expectation import Expectation
from oracles.expectation import expect as literally

FEW: Final = 4
"""Up to so many tokens, the literal oracle is done before arrays pay."""

FEW_IN_TWO_FLOAT64: Final = 16
"""The same where values need two float64."""


def expect(case: Case, contract: Contract | None = None) -> Expectation:
    """Evaluate the oracle of a case, with the bound of its dtype or of another contract."""
    single = isinstance(arithmetic_for(contract or Contract.of(case.batch.dtype)), Double)
    few = case.batch.tokens <= (FEW if single else FEW_IN_TWO_FLOAT64)
    return literally(case, contract) if few else on_arrays(case, contract)
