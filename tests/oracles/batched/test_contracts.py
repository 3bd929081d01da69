"""Contracts that allow more than the ordinary one: the oracle on arrays leaves them to the literal one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.test_speed import case
from cases.dtypes import BFLOAT16, FLOAT32, DType
from cases.spec import LossType
from oracles.batched.expectation import expect
from oracles.contract import Contract
from oracles.expectation import expect as literally
from oracles.named_contracts import accumulates_in, fast_exp


@pytest.mark.parametrize(
    ("dtype", "contract"),
    [(FLOAT32, fast_exp), (BFLOAT16, lambda dtype: accumulates_in(dtype, dtype))],
    ids=["fast_exp", "accumulates_in"],
)
def test_a_named_contract_has_the_literal_bound(dtype: DType, contract: Callable[[DType], Contract]) -> None:
    """Both oracles give one bound, which is wider than the ordinary one."""
    made = case(4, 8, dtype, LossType.GRPO)
    ours, exact = expect(made, contract(dtype)), literally(made, contract(dtype))
    np.testing.assert_array_equal(ours.loss.bound, exact.loss.bound)
    np.testing.assert_array_equal(ours.gradients[0].bound, exact.gradients[0].bound)
    assert ours.loss.bound > 1.01 * expect(made).loss.bound
