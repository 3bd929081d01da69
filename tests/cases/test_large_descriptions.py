"""Large batches: beyond the sizes at which code changes its ways, drawn to the region, stored in little room."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cases.batch import Batch
from cases.case import Case, CaseFormatError
from cases.descriptions import Advantage, Description, Layout, Ratio, Row
from cases.dtypes import BFLOAT16, DTYPES, FLOAT32, DType
from cases.hyperparameters import case_for
from cases.large import is_large, large_descriptions
from cases.packed import packed, unpacked
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import Level, LossType

LARGEST_FLOAT16 = 65_504


def case(description: Description, dtype: DType = FLOAT32, level: Level = Level.TOKEN) -> Case:
    return case_for(description, realise(description, dtype, level), LossType.GRPO, level, 0.04)


@pytest.fixture(scope="module")
def batches() -> list[Batch]:
    return [realise(description, FLOAT32, Level.TOKEN) for description in large_descriptions()]


def test_counts_leave_what_narrow_types_hold(batches: list[Batch]) -> None:
    """Of tokens in the batch and in one completion, of completions: odd ones where half types round, and more."""
    assert all(is_large(batch) for batch in batches)
    tokens = [batch.tokens for batch in batches]
    longest = [int(batch.lengths.max()) for batch in batches]
    for counts in (tokens, longest):
        assert any(count > 2**8 and count % 2 for count in counts)
        assert any(count > 2**11 and count % 2 for count in counts)
        assert any(count > LARGEST_FLOAT16 for count in counts)
        assert max(counts) > 2**16
    assert any(batch.rows > 2**11 and batch.rows % 2 for batch in batches)
    assert max(tokens) == max(batch.mask.size for batch in batches) == 64 * 4096
    assert any(batch.columns % 1024 == 1 and batch.rows > 1 for batch in batches)


def test_they_are_of_every_layout(batches: list[Batch]) -> None:
    """Ratios on either side of both bounds; holes, an empty completion, one of one token; a split; equal terms."""
    met: set[str] = set()
    for description, batch in zip(large_descriptions(), batches, strict=True):
        met |= set(regions_of(case_for(description, batch, LossType.GRPO, Level.TOKEN, 0.04)))
    wanted = (
        "ratio_inside clipped_high clipped_low unclipped_high unclipped_low on_policy row_empty row_of_one_token"
    )
    wanted += " row_full holes lengths_ragged one_row accumulation ranks micro_batches_uneven"
    assert set(wanted.split()) <= met
    alike = next(batch for batch in batches if batch.old_logps is None)
    assert alike.mask.all()
    assert (alike.advantages > 0).all()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_ratios_lie_where_they_are_meant(dtype: DType) -> None:
    """In long rows, whose numbers are drawn together, as in short ones; equal descriptions give equal numbers."""
    ratios = (Ratio.INSIDE, Ratio.ABOVE_HIGH, Ratio.AT_LOW, Ratio.BELOW_LOW)
    rows = (Row(Layout.FULL, 1, ratios), Row(Layout.FULL, 1, ratios, advantage=Advantage.NEGATIVE))
    description = Description(rows, columns=3000, seed=11)
    batch = realise(description, dtype, Level.TOKEN)
    assert batch == realise(description, dtype, Level.TOKEN)
    ratio = np.exp(batch.log_ratios)
    assert ((ratio[:, 0::4] > 0.8) & (ratio[:, 0::4] < 1.2)).all()
    assert (ratio[:, 1::4] > 1.2).all()
    assert (np.abs(ratio[:, 2::4] - 0.8) < 8 * dtype.unit_roundoff).all()
    assert (ratio[:, 3::4] < 0.8).all()
    below = ratio[:, 0::4] < 1
    assert 0.4 < below.mean() < 0.6, "either side of 1, evenly"


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("number", range(len(large_descriptions())))
def test_a_large_case_survives_its_file(number: int, level: Level) -> None:
    """To the bit, in a few bytes a number; and a changed number is noticed."""
    made = case(large_descriptions()[number], BFLOAT16, level)
    text = made.to_json()
    assert Case.from_json(text) == made
    assert len(text) < 16 * made.batch.mask.size
    content = json.loads(text)
    logps = made.batch.logps.copy()
    logps[0, 0] = -2.0
    content["batch"]["logps"] = packed(logps)
    with pytest.raises(CaseFormatError, match="it was edited"):
        Case.from_json(json.dumps(content))


def test_a_small_case_is_readable_as_ever() -> None:
    """Its numbers are hexadecimal floats, a row a line."""
    small = case(Description((Row(), Row()), columns=3, seed=1))
    assert json.loads(small.to_json())["batch"]["logps"][0][0].startswith("-0x")


GOOD: dict[str, Any] = packed(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ({"packed": "float32"}, "a packed array of 'float32', takes one of float64, bool"),
        ({"packed": None}, "a packed array of None"),
        ({"shape": [2, 4]}, r"not of shape \(2, 4\)"),
        ({"shape": [2, 2]}, r"not of shape \(2, 2\)"),
        ({"shape": [2, -1]}, "takes a list of sizes"),
        ({"shape": "23"}, "takes a list of sizes"),
        ({"shape": [2**20, 2**20]}, "takes 67,108,864"),
        ({"data": GOOD["data"][:-8]}, "not of shape|cannot be read"),
        ({"data": "not base64!"}, "cannot be read"),
        ({"data": 7}, "cannot be read"),
        ({"data": packed(np.zeros(2**20))["data"]}, r"not of shape \(2, 3\)"),
    ],
)
def test_a_damaged_array_is_refused(damage: dict[str, Any], words: str) -> None:
    """With the name of the tensor; one that unpacks to more than it says takes no more memory than it says."""
    assert unpacked("logps", GOOD).shape == (2, 3)
    with pytest.raises(ValueError, match=f"^logps: got .*{words}"):
        unpacked("logps", {**GOOD, **damage})
