"""What only size shows: memory, accumulators, counts."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from batched_equality import assert_same

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import BFLOAT16, DTYPES, FLOAT16, FLOAT32, DType, FloatArray
from cases.spec import Level, LossSpec, LossType
from harness.judge import judge
from harness.outcome import Outcome
from oracles.batched.expectation import expect
from oracles.expectation import Expectation
from oracles.expectation import expect as literally
from reports.records import Verdict

TENSORS = 16
"""What an evaluation may take, in float64 tensors of the batch's shape: the answer alone is three and a mask."""


def batch(rows: int, columns: int, dtype: DType) -> Batch:
    """Typical numbers, completions from short to full."""
    random = np.random.default_rng(rows * columns)
    shape = rows, columns
    logps = dtype.round(-random.uniform(0.02, 1.0, shape))
    lengths = columns * (np.arange(rows) + 1) // rows
    return Batch(
        dtype,
        logps,
        dtype.round(logps - random.normal(0.0, 0.15, shape)),
        dtype.round(logps + random.uniform(-1.0, 1.0, shape)),
        dtype.round(random.normal(0.0, 1.0, rows)),
        np.arange(columns) < lengths[:, None],
    )


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("level", Level)
def test_long_completions(dtype: DType, level: Level) -> None:
    """The literal oracle's answer on completions so long that counts leave half types, and decisions abound."""
    case = Case(batch(2, 600, dtype), LossSpec(LossType.GRPO, level, 0.04))
    assert_same(literally(case), expect(case), dtype)


def _peak(case: Case) -> int:
    expect(case)
    tracemalloc.start()
    try:
        expect(case)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("loss_type", [LossType.GRPO, LossType.VESPO])
def test_memory(loss_type: LossType) -> None:
    """Memory is a small multiple of the batch, and grows no faster than it."""
    spec = LossSpec(loss_type, beta=0.04)
    small, large = (_peak(Case(batch(rows, 4096, FLOAT32), spec)) for rows in (16, 64))
    assert large < TENSORS * 8 * 64 * 4096
    assert large < 4.5 * small


def _exact(expectation: Expectation) -> Outcome:
    return Outcome("ok", float(expectation.loss.high[0]), expectation.gradients[0].high)


@pytest.mark.parametrize("dtype", [BFLOAT16, FLOAT16], ids=["bfloat16", "float16"])
def test_coarse_accumulator(dtype: DType) -> None:
    """A sum over 4096 tokens that is kept in a half type diverges; the right answer, rounded, conforms."""
    columns = 4096
    zeros = np.full((2, columns), -0.5)
    one = Batch(dtype, zeros, zeros, None, np.array([1.0, 0.5]), np.ones((2, columns), dtype=bool))
    case = Case(one, LossSpec(LossType.BNPO))
    expectation = expect(case)
    right = _exact(expectation)
    assert right.loss is not None
    rounded = Outcome("ok", float(dtype.round(right.loss)), right.gradient)
    assert judge(case, expectation, rounded).verdict is Verdict.CONFORMS
    added = 0.0
    for term in -np.repeat([1.0, 0.5], columns):
        added = float(dtype.round(added + term))
    wrong = Outcome("ok", float(dtype.round(added / (2 * columns))), right.gradient)
    assert judge(case, expectation, wrong).verdict is Verdict.DIVERGES


def test_count_that_overflows() -> None:
    """In float16 the number of tokens overflows and loss and gradient become 0: finite, and wrong."""
    case = Case(batch(64, 4096, FLOAT16), LossSpec(LossType.BNPO))
    expectation = expect(case)
    assert judge(case, expectation, _exact(expectation)).verdict is Verdict.CONFORMS
    assert case.batch.tokens > FLOAT16.largest
    nothing: FloatArray = np.zeros((64, 4096))
    assert judge(case, expectation, Outcome("ok", 0.0, nothing)).verdict is Verdict.DIVERGES
