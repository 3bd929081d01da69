"""Every region is told from the numbers of a case, and the boundary phase reaches all of them."""

from __future__ import annotations

import pytest
from hand_made_cases import HAND_MADE, HIGH, LOW, OPTIONS_BY_HAND, SEQUENCE, token, tokens

from cases.dtypes import BFLOAT16, DTYPES, FLOAT32, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import REGIONS, Locator, missing, regions_of
from cases.schedule import boundary_descriptions
from cases.spec import Level, LossType
from cases.tokens import Tokens

AT_LOWER_BOUND = {"ratio_at_low", "ratio_just_below_low", "clipped_low", "unclipped_low"}
AT_UPPER_BOUND = {"ratio_at_high", "ratio_just_above_high", "clipped_high", "unclipped_high"}
AT_DELTA = {"delta_above", "delta_below", "ratio_at_delta", "ratio_above_delta"}
UNBOUNDED = (LossType.SAPO, LossType.VESPO)


@pytest.mark.parametrize("name", [*HAND_MADE, *OPTIONS_BY_HAND])
def test_region_tells_cases_apart(name: str) -> None:
    """Every region holds for cases made for it and not for their neighbours."""
    inside, outside = {**HAND_MADE, **OPTIONS_BY_HAND}[name]
    assert inside
    assert outside
    for case in inside:
        assert name in regions_of(case), case
    for case in outside:
        assert name not in regions_of(case), case


def test_every_region_is_tried() -> None:
    """No region without cases inside and outside."""
    assert {*HAND_MADE, *OPTIONS_BY_HAND} == set(REGIONS)
    assert all(region.name == name and region.about for name, region in REGIONS.items())


def test_masked_tokens_are_in_no_region() -> None:
    """What stands behind the mask does not put a case anywhere."""
    plain = tokens([[0.0, 0.0]], [[1, 0]], advantage=[[1.0, 1.0]])
    wild = tokens([[0.0, 30.0]], [[1, 0]], advantage=[[1.0, -5000.0]])
    assert regions_of(wild) == regions_of(plain)


def test_regions_are_those_of_the_level() -> None:
    """At sequence level the ratio is the completion's: each row has its own mean over its own tokens."""
    rows = [[HIGH + 0.5, HIGH - 0.5, 9.0], [LOW, 9.0, 9.0]]
    mask = [[1, 1, 0], [1, 0, 0]]
    found = regions_of(tokens(rows, mask, **SEQUENCE))
    assert {"ratio_at_high", "ratio_at_low"} <= set(found)
    assert not {"ratio_far", "clipped_high", "ratio_inside"} & set(found)


def test_ulps_are_those_of_the_dtype() -> None:
    """The same distance from a bound is many ulps of one dtype and none of another."""
    off = float(BFLOAT16.round(HIGH))
    assert "ratio_at_high" in regions_of(token(off, dtype=BFLOAT16))
    assert "ratio_at_high" not in regions_of(token(off, dtype=FLOAT32))


def existing(loss_type: LossType) -> set[str]:
    """The regions that a loss can be in."""
    regions = set(REGIONS)
    if loss_type is not LossType.SAPO:
        regions -= {"temperature_beyond_float32"}
    if loss_type in UNBOUNDED:
        return regions - AT_LOWER_BOUND - AT_UPPER_BOUND - AT_DELTA
    if loss_type is LossType.CISPO:
        return regions - AT_LOWER_BOUND - AT_DELTA
    return regions if loss_type.clips else regions - AT_DELTA


@pytest.mark.parametrize("loss_type", LossType)
@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_boundary_phase_hits_every_region(dtype: DType, level: Level, loss_type: LossType) -> None:
    """Every region that exists for a loss is hit at every dtype and level; cispo has no lower bound."""
    hit: set[str] = set()
    for description in boundary_descriptions():
        hit.update(regions_of(case_for(description, realise(description, dtype, level), loss_type, level, 0.04)))
    assert missing(existing(loss_type), hit) == ()
    assert not hit - existing(loss_type)


def test_boundary_phase_is_always_the_same() -> None:
    """The descriptions are fixed, all different, and small, but for three beyond a kernel's block size."""
    descriptions = boundary_descriptions()
    assert descriptions == boundary_descriptions()
    assert len(set(descriptions)) == len(descriptions)
    assert [one.seed for one in descriptions] == list(range(len(descriptions)))
    large = [one for one in descriptions if len(one.rows) * one.columns > 32]
    assert len(large) == 3
    assert max(len(one.rows) * one.columns for one in large) <= 300


def test_missing_regions_are_listed() -> None:
    """What was needed and not hit, in alphabetical order, without regard to what was hit besides."""
    assert missing(("b", "c", "a"), ["c", "d"]) == ("a", "b")
    assert missing((), ["a"]) == ()


@pytest.mark.parametrize("level", Level)
def test_what_is_shared_by_cases_of_a_batch_holds_for_each(level: Level) -> None:
    """Cases of one batch, asked one after the other, are where each is by itself."""
    for description in boundary_descriptions()[::7]:
        batch, locator = realise(description, FLOAT32, level), Locator()
        for loss_type in LossType:
            for beta in (0.0, 0.04):
                case = case_for(description, batch, loss_type, level, beta)
                alone = tuple(region.name for region in REGIONS.values() if region.holds(Tokens(case)))
                assert locator.regions_of(case) == alone, case
