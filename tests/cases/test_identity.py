"""What a case's identity is made of, and inputs that once slipped through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cases.batch import Batch
from cases.case import Case, CaseFormatError
from cases.conventions import Conventions
from cases.dtypes import DTYPES, FLOAT32
from cases.spec import LossSpec, LossType

BATCH = Batch(
    dtype=FLOAT32,
    logps=np.array([[-1.0, 0.0]]),
    old_logps=np.array([[-1.0, -1.0]]),
    ref_logps=None,
    advantages=np.array([1.0]),
    mask=np.array([[True, False]]),
)
CASE = Case(BATCH, LossSpec(LossType.GRPO))


def test_batches_with_and_without_a_tensor_differ() -> None:
    """Comparing a tensor with none is an answer, not an error."""
    assert replace(BATCH, old_logps=None) != BATCH
    assert replace(BATCH, ref_logps=BATCH.logps) != BATCH


def test_signed_zeros_are_different_inputs() -> None:
    """Equality, hash and id agree that 0 and -0 differ."""
    other = replace(BATCH, logps=np.array([[-1.0, -0.0]]))
    assert other != BATCH
    assert Case(other, CASE.spec).id != CASE.id


def test_the_id_outlives_new_fields() -> None:
    """What is at its default does not enter the id: a field that is added later leaves stored ids as they are."""
    spelled_out = Case(BATCH, LossSpec(LossType.GRPO, beta=0.0, delta=None, conventions=Conventions()))
    assert spelled_out.id == CASE.id
    assert Case(BATCH, replace(CASE.spec, delta=2.0)).id != CASE.id
    text = CASE.to_json()
    assert Case.from_json(text.replace('  "delta": null,\n', "")).id == CASE.id


@pytest.mark.parametrize("name", DTYPES)
def test_the_ulp_of_zero_is_the_smallest_spacing(name: str) -> None:
    """At 0 the neighbours are the smallest subnormals."""
    dtype = DTYPES[name]
    smallest = float(dtype.ulp(0.0))
    assert dtype.holds([smallest])
    assert dtype.round([smallest / 4])[0] == 0.0


@pytest.mark.parametrize(
    "spoilt",
    [
        "[" * 100_000,
        '{"format": ' + "9" * 5000 + "}",
        CASE.to_json().replace('"epsilon_low": 0.2', '"epsilon_low": 1' + "0" * 400),
        CASE.to_json().replace('"max_completion_length": 256', '"max_completion_length": 1' + "0" * 400),
        CASE.to_json().replace('"float32"', '["float32"]'),
        CASE.to_json().replace('["finite"]', "5"),
    ],
    ids=["deep", "digits", "huge number", "huge count", "list for text", "number for list"],
)
def test_what_no_reader_expects_is_still_one_sentence(spoilt: str) -> None:
    """Depth, size and type that break a reader are refused like any other bad file."""
    with pytest.raises(CaseFormatError):
        Case.from_json(spoilt)
