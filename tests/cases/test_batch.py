"""A batch takes what it can judge, says what is wrong with anything else, and does not change."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from example_batches import batch, batches, same_bits
from hypothesis import given, settings

from cases.batch import Batch
from cases.dtypes import BFLOAT16, DTYPES, FLOAT16, FLOAT32, FLOAT64

THREE = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": "float32"}, "dtype: got 'float32', takes one of float64, float32, bfloat16, float16"),
        ({"logps": np.zeros(3)}, r"logps: got shape (3,), takes (B, T) with B and T at least 1"),
        ({"logps": np.zeros((0, 3))}, r"logps: got shape (0, 3), takes (B, T) with B and T at least 1"),
        ({"logps": np.zeros((2, 0))}, r"logps: got shape (2, 0), takes (B, T) with B and T at least 1"),
        ({"logps": 1.0}, r"logps: got shape (), takes (B, T) with B and T at least 1"),
        ({"logps": [[1.0, "x", 0.0]] * 2}, r"logps: takes numbers of shape (2, 3) ("),
        ({"old_logps": THREE.T}, "old_logps: got shape (3, 2), takes (2, 3)"),
        ({"ref_logps": np.zeros((2, 3, 1))}, "ref_logps: got shape (2, 3, 1), takes (2, 3)"),
        ({"ref_logps": [[1.0], [2.0, 3.0]]}, "ref_logps: takes numbers of shape (2, 3) ("),
        ({"advantages": np.zeros(3)}, "advantages: got shape (3,), takes (2,) or (2, 3)"),
        ({"advantages": np.zeros((2, 1))}, "advantages: got shape (2, 1), takes (2,) or (2, 3)"),
        ({"advantages": None}, "advantages: got shape (), takes (2,) or (2, 3)"),
        ({"logps": THREE + np.nan}, "logps: got a value that is not finite, takes finite numbers only"),
        ({"old_logps": THREE + np.inf}, "old_logps: got a value that is not finite, takes finite numbers only"),
        ({"advantages": [1.0, -np.inf]}, "advantages: got a value that is not finite, takes finite numbers only"),
        ({"ref_logps": THREE + 0.1}, "ref_logps: got a value that float32 cannot hold exactly"),
        ({"advantages": [0.1, 1.0]}, "advantages: got a value that float32 cannot hold exactly"),
        ({"mask": THREE}, "mask: got float64 of shape (2, 3), takes bool of shape (2, 3)"),
        ({"mask": THREE.astype(int)}, "mask: got int64 of shape (2, 3), takes bool of shape (2, 3)"),
        ({"mask": np.ones((3, 2), dtype=bool)}, "mask: got bool of shape (3, 2), takes bool of shape (2, 3)"),
        ({"mask": None}, "mask: got object of shape (), takes bool of shape (2, 3)"),
    ],
)
def test_wrong_fields_are_named(changes: dict[str, Any], message: str) -> None:
    """A wrong field is refused in a sentence with its name, what it got and what it takes."""
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        batch(**changes)


@pytest.mark.parametrize("field", ["logps", "old_logps", "ref_logps", "advantages"])
@pytest.mark.parametrize(
    ("dtype", "held", "beyond"),
    [
        (FLOAT32, 1.0 + 2.0**-23, 1.0 + 2.0**-24),
        (BFLOAT16, 1.0 + 2.0**-7, 1.0 + 2.0**-8),
        (FLOAT16, 1.0 + 2.0**-10, 1.0 + 2.0**-11),
        (FLOAT16, 2.0**-24, 2.0**-25),
        (FLOAT16, 65504.0, 65520.0),
        (FLOAT32, 2.0**-149, 2.0**-150),
        (FLOAT64, 0.1, None),
    ],
)
def test_only_what_the_dtype_holds(field: str, dtype: Any, held: float, beyond: float | None) -> None:
    """Every float tensor of a cell is in its dtype: no number that it would have to round."""
    shape = (2,) if field == "advantages" else (2, 3)
    assert (getattr(batch(dtype=dtype, **{field: np.full(shape, held)}), field) == held).all()
    if beyond is not None:
        with pytest.raises(ValueError, match=f"^{field}: got a value that {dtype.name} cannot hold exactly$"):
            batch(dtype=dtype, **{field: np.full(shape, beyond)})


@pytest.mark.parametrize("field", ["logps", "old_logps", "ref_logps", "advantages", "mask"])
def test_arrays_are_copies_and_read_only(field: str) -> None:
    """Nobody changes a batch: not through it, and not through what it was made of."""
    given_array = getattr(batch(), field).copy()
    made = batch(**{field: given_array})
    before = getattr(made, field).copy()
    given_array[0] = not given_array.flat[0] if field == "mask" else 8.0
    assert np.array_equal(getattr(made, field), before)
    with pytest.raises(ValueError, match="read-only"):
        getattr(made, field)[0] = 1.0
    with pytest.raises(FrozenInstanceError):
        setattr(made, field, before)


def test_anything_like_an_array_is_taken() -> None:
    """Lists, other float types and other memory layouts make the same batch."""
    made = batch()
    for convert in (np.ndarray.tolist, np.asfortranarray, lambda array: array[:, ::-1][:, ::-1]):
        assert same_bits(batch(logps=convert(made.logps), mask=convert(made.mask)), made)
    assert same_bits(batch(logps=made.logps.astype(np.float32), advantages=[1, -0.5]), made)
    assert made.logps.dtype == np.float64


def test_sizes() -> None:
    """Rows, columns, lengths and tokens are read off the mask."""
    made = batch()
    assert (made.rows, made.columns, made.tokens) == (2, 3, 3)
    assert made.lengths.tolist() == [2, 1]
    assert type(made.tokens) is int


def test_advantages_of_either_form() -> None:
    """Per-completion advantages stand for every token; per-token ones for themselves."""
    assert batch().token_advantages.tolist() == [[1.0] * 3, [-0.5] * 3]
    per_token = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(batch(advantages=per_token).token_advantages, per_token)
    # B = T leaves no doubt: one axis is per completion.
    square = {name: np.zeros((2, 2)) for name in ("logps", "old_logps", "ref_logps")}
    made = batch(**square, mask=np.ones((2, 2), dtype=bool), advantages=[1.0, 2.0])
    assert made.token_advantages.tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_log_ratios_of_either_form() -> None:
    """logps - old_logps, or 0 where there are no old ones."""
    assert batch().log_ratios.tolist() == [[0.0, 0.25, 0.0], [0.5, 0.0, 0.0]]
    on_policy = batch(old_logps=None)
    assert not on_policy.log_ratios.any()
    assert on_policy.log_ratios.shape == (2, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"dtype": DTYPES["float64"]},
        {"logps": THREE},
        {"old_logps": THREE},
        {"ref_logps": THREE},
        {"advantages": [1.0, -0.25]},
        {"advantages": THREE},
        {"mask": np.ones((2, 3), dtype=bool)},
    ],
)
def test_equality_is_of_all_numbers(changes: dict[str, Any]) -> None:
    """Batches are equal when every field is."""
    assert batch() == batch()
    assert hash(batch()) == hash(batch())
    assert batch(**changes) != batch()
    assert batch(**changes) == batch(**changes)
    assert batch() != "a batch"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(batches())
def test_any_batch_can_be_made_again(drawn: Batch) -> None:
    """What a batch holds makes the same batch, to the bit."""
    fields = ("dtype", "logps", "old_logps", "ref_logps", "advantages", "mask")
    again = Batch(**{field: getattr(drawn, field) for field in fields})
    assert same_bits(again, drawn)
    assert again == drawn
    assert hash(again) == hash(drawn)
