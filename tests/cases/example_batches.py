"""Batches to test with: one by hand, and any at all from Hypothesis."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.conventions import Conventions, EmptyRows, PaddingPromise
from cases.dtypes import DTYPES, FLOAT32, DType
from cases.spec import Level, LossSpec, LossType
from cases.split import Split

_FIELDS: dict[str, Any] = {
    "dtype": FLOAT32,
    "logps": np.array([[-1.0, -0.5, -0.25], [-2.0, -0.125, -1.5]]),
    "old_logps": np.array([[-1.0, -0.75, -0.25], [-2.5, -0.125, -1.5]]),
    "ref_logps": np.array([[-1.25, -0.5, -0.25], [-2.0, -0.5, -1.5]]),
    "advantages": np.array([1.0, -0.5]),
    "mask": np.array([[True, True, False], [True, False, False]]),
}


def batch(**changes: Any) -> Batch:
    """Two completions of at most three tokens, with some fields changed."""
    return Batch(**{**_FIELDS, **changes})


def case(spec: dict[str, Any] | None = None, split: Split | None = None, **changes: Any) -> Case:
    """The batch as a grpo case, with some fields of the spec and of the batch changed."""
    return Case(batch(**changes), LossSpec(**{"loss_type": "grpo", **(spec or {})}), split or Split())


def numbers(dtype: DType) -> st.SearchStrategy[float]:
    """Any finite number that a dtype holds, with subnormals, the largest and both zeros among them."""
    digits = 2**dtype.precision - 1
    exponents = st.integers(dtype.min_exponent - dtype.precision + 1, dtype.max_exponent - dtype.precision + 1)
    scaled = st.builds(lambda digits, exponent: digits * 2.0**exponent, st.integers(-digits, digits), exponents)
    return scaled | st.just(-0.0)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Small batches of any dtype, any numbers and every optional tensor there or not."""
    dtype = draw(st.sampled_from(list(DTYPES.values())))
    rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3))

    def tensor(*shape: int) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array(draw(st.lists(numbers(dtype), min_size=size, max_size=size))).reshape(shape)

    return Batch(
        dtype=dtype,
        logps=tensor(rows, columns),
        old_logps=draw(st.none() | st.builds(lambda: tensor(rows, columns))),
        ref_logps=tensor(rows, columns),
        advantages=tensor(rows, columns) if draw(st.booleans()) else tensor(rows),
        mask=np.array(draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns))).reshape(
            rows, columns
        ),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any case that holds."""
    drawn = draw(batches())
    spec = LossSpec(
        loss_type=draw(st.sampled_from(LossType)),
        importance_sampling_level=draw(st.sampled_from(Level)),
        beta=draw(st.floats(0.0, 10.0)),
        epsilon_low=draw(st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)),
        epsilon_high=draw(st.floats(0.0, 10.0, exclude_min=True)),
        max_completion_length=draw(st.integers(1, 10**6)),
        conventions=Conventions(
            empty_rows=draw(st.sampled_from(EmptyRows)),
            padding=tuple(draw(st.lists(st.sampled_from(PaddingPromise), max_size=4))),
        ),
    )
    return Case(drawn, spec, draw(st.sampled_from([Split(), Split(ranks=drawn.rows), Split(1, 1, drawn.rows)])))


def same_bits(ours: Batch, theirs: Batch) -> bool:
    """Whether two batches hold the same bits, the sign of zero included."""
    names = ("logps", "old_logps", "ref_logps", "advantages", "mask")
    pairs = [(getattr(ours, name), getattr(theirs, name)) for name in names]
    return ours.dtype is theirs.dtype and all(
        one is other
        or (one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes())
        for one, other in pairs
    )


def with_bit_flipped(values: np.ndarray) -> np.ndarray:
    """The array with the last bit of its first float32 changed."""
    changed = values.copy()
    changed.flat[0] = np.nextafter(np.float32(changed.flat[0]), np.float32(np.inf))
    return changed


def respecified(one: Case, **changes: Any) -> Case:
    """The case with some fields of its spec changed."""
    return replace(one, spec=replace(one.spec, **changes))
