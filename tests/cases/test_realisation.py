"""A description becomes the same numbers every time, and they lie where it says in every dtype, at every level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from example_batches import same_bits
from hypothesis import given, settings

from cases.batch import Batch
from cases.descriptions import (
    Advantage,
    Bounds,
    Delta,
    Description,
    Horizon,
    Layout,
    Ratio,
    Reference,
    Row,
    descriptions,
)
from cases.dtypes import DTYPES, FLOAT32, DType
from cases.hyperparameters import case_for, spec_for
from cases.realisation import realise
from cases.spec import Level, LossType
from cases.tokens import Tokens

every_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
every_level = pytest.mark.parametrize("level", Level)

AT, JUST = 4, 256
"""Ulps that count as at a bound, and as just outside it."""


HOLDS: dict[Ratio, Callable[[Tokens], np.ndarray]] = {
    Ratio.INSIDE: lambda t: (t.ratio > t.low) & (t.ratio < t.high),
    Ratio.AT_HIGH: lambda t: np.abs(t.above_high) <= AT,
    Ratio.AT_LOW: lambda t: np.abs(t.below_low) <= AT,
    Ratio.JUST_ABOVE_HIGH: lambda t: (t.above_high > AT) & (t.above_high <= JUST),
    Ratio.JUST_BELOW_LOW: lambda t: (t.below_low > AT) & (t.below_low <= JUST),
    Ratio.ABOVE_HIGH: lambda t: t.log_ratio > math.log(t.high) + 0.02,
    Ratio.BELOW_LOW: lambda t: t.log_ratio < math.log(t.low) - 0.02,
    Ratio.FAR_ABOVE: lambda t: t.log_ratio > math.log(t.high) + 1.0,
    Ratio.FAR_BELOW: lambda t: t.log_ratio < math.log(t.low) - 1.0,
    Ratio.ONE: lambda t: np.abs(t.log_ratio) <= 8 * t.batch.dtype.unit_roundoff,
    Ratio.AT_DELTA: lambda t: np.abs(t.above_delta) <= AT,
    # The dual clip of libraries is 3.
    Ratio.AT_DUAL_CLIP: lambda t: np.abs(t.ratio - 3.0) <= AT * t.batch.dtype.ulp(3.0),
    Ratio.BEYOND_20: lambda t: np.abs(t.log_ratio) > 20.0,
    Ratio.BEYOND_MINUS_20: lambda t: t.log_ratio < -20.0,
    Ratio.OVERFLOW: lambda t: t.log_ratio > math.log(t.batch.dtype.largest),
}


def tokens_of(description: Description, dtype: DType, level: Level) -> Tokens:
    """The unmasked tokens of a description in a grpo cell."""
    return Tokens(case_for(description, realise(description, dtype, level), LossType.GRPO, level, 0.04))


def one_row(
    seeds: int = 12, columns: int = 4, bounds: Bounds = Bounds.DEFAULT, **row: object
) -> Iterator[Description]:
    """A completion of one and one of three tokens, with several seeds."""
    for seed in range(seeds):
        for length in (1, 3):
            yield Description((Row(length=length, **row),), columns, bounds, seed=seed)  # type: ignore[arg-type] # fields of Row


@pytest.mark.parametrize("ratio", Ratio)
@every_level
@every_dtype
def test_ratio_lies_in_its_region(dtype: DType, level: Level, ratio: Ratio) -> None:
    """With every pair of clip bounds the realised ratio is where the description wants it."""
    for bounds in Bounds:
        for description in one_row(bounds=bounds, ratios=(ratio,)):
            found = tokens_of(replace(description, delta=Delta.ABOVE), dtype, level)
            assert HOLDS[ratio](found).all(), (description, found.above_high, found.below_low, found.log_ratio)


@pytest.mark.parametrize(("ratio", "side"), [(Ratio.AT_HIGH, 1.0), (Ratio.AT_LOW, -1.0)])
@every_level
@every_dtype
def test_ulps_move_a_ratio_across_its_bound(dtype: DType, level: Level, ratio: Ratio, side: float) -> None:
    """An offset in ulps moves the ratio that way, and no further than a few ulps beyond it."""
    for bounds in Bounds:
        distances = []
        for ulps in (-3, 0, 3):
            found = [tokens_of(d, dtype, level) for d in one_row(bounds=bounds, ratios=(ratio,), ulps=ulps)]
            distance = [t.above_high if side > 0 else -t.below_low for t in found]
            distances.append(np.concatenate(distance))
            assert np.abs(distances[-1]).max() <= AT + 2 * abs(ulps)
        assert distances[0].mean() < distances[1].mean() < distances[2].mean()


@every_dtype
def test_tokens_take_ratios_in_turn(dtype: DType) -> None:
    """At token level the ratios alternate along the columns; at sequence level the first is the completion's."""
    row = Row(Layout.FULL, ratios=(Ratio.ABOVE_HIGH, Ratio.BELOW_LOW, Ratio.INSIDE))
    description = Description((row,), columns=7)
    for t, found in enumerate(tokens_of(description, dtype, Level.TOKEN).log_ratio):
        expected = (found > 0.2, found < -0.25, abs(found) < 0.2)
        assert expected[t % 3]
    completion = tokens_of(description, dtype, Level.SEQUENCE)
    assert (completion.log_ratio > 0.2).all()
    assert len(set(completion.batch.log_ratios[0].tolist())) > 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(descriptions())
def test_equal_arguments_give_equal_numbers(description: Description) -> None:
    """Realisation is a function of its arguments, the seed among them."""
    for dtype in DTYPES.values():
        for level in Level:
            made = realise(description, dtype, level)
            assert same_bits(made, realise(description, dtype, level))
            other = realise(replace(description, seed=description.seed + 1), dtype, level)
            assert not np.array_equal(other.logps, made.logps)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(descriptions())
def test_numbers_of_any_description(description: Description) -> None:
    """Shapes follow the description, values fit the dtype, and nothing overflows behind the mask."""
    for dtype in DTYPES.values():
        for level in Level:
            made = realise(description, dtype, level)
            assert made.logps.shape == (description.row_count, description.columns)
            assert made.advantages.ndim == (2 if description.token_advantages else 1)
            assert (made.old_logps is None) == description.on_policy
            tensors = (made.logps, made.old_logps, made.ref_logps, made.advantages)
            assert all(dtype.holds(tensor) for tensor in tensors if tensor is not None)
            assert_harmless_garbage(made)


def assert_harmless_garbage(made: Batch) -> None:
    """What stands at masked positions is finite and moderate, and so is all that is computed from it."""
    assert made.ref_logps is not None
    log_ratio = made.log_ratios[~made.mask]
    ref_log_ratio = (made.ref_logps - made.logps)[~made.mask]
    advantage = np.abs(made.token_advantages[~made.mask])
    logp = np.abs(made.logps[~made.mask])
    for ratio in (log_ratio, ref_log_ratio):
        # At most 5 are meant; the two numbers that differ by it are rounded.
        assert (np.abs(ratio) <= 5.0 + made.dtype.ulp(5.0)).all()
    factor = np.ones_like(logp) if made.token_importance_ratio is None else made.token_importance_ratio[~made.mask]
    policy = np.exp(log_ratio) * advantage * np.maximum(factor, 1.0)
    assert (policy * np.maximum(logp, 1.0) < made.dtype.largest).all()
    assert (np.exp(ref_log_ratio) + np.abs(ref_log_ratio) < made.dtype.largest).all()


def test_garbage_would_change_the_answer() -> None:
    """Masked positions are not neutral: their ratios and KL terms are far from those of equal policies."""
    description = Description((Row(length=1),) * 4, columns=6)
    made = realise(description, FLOAT32, Level.TOKEN)
    assert made.ref_logps is not None
    assert (np.abs(made.log_ratios[~made.mask]) > 0.25).mean() > 0.8
    assert (np.abs(made.ref_logps - made.logps)[~made.mask] > 0.25).all()


@pytest.mark.parametrize(
    ("layout", "length", "expected"),
    [
        (Layout.PREFIX, 2, [1, 1, 0, 0, 0]),
        (Layout.PREFIX, 9, [1, 1, 1, 1, 1]),
        (Layout.FULL, 1, [1, 1, 1, 1, 1]),
        (Layout.EMPTY, 3, [0, 0, 0, 0, 0]),
        (Layout.LEFT_PADDED, 2, [0, 0, 0, 1, 1]),
        (Layout.HOLES, 3, None),
    ],
)
def test_layouts(layout: Layout, length: int, expected: list[int] | None) -> None:
    """Tokens stand where the layout puts them; holes are anywhere, as many as asked for."""
    masks = [realise(d, FLOAT32, Level.TOKEN).mask[0].astype(int).tolist() for d in _layouts(layout, length)]
    if expected is None:
        assert all(sum(mask) == length for mask in masks)
        assert len(set(map(tuple, masks))) > 3
    else:
        assert all(mask == expected for mask in masks)


def _layouts(layout: Layout, length: int) -> list[Description]:
    return [Description((Row(layout, length),), columns=5, seed=seed) for seed in range(10)]


@pytest.mark.parametrize(
    ("advantage", "holds"),
    [
        (Advantage.POSITIVE, lambda a: (a >= 0.19) & (a <= 2.01)),
        (Advantage.NEGATIVE, lambda a: (a <= -0.19) & (a >= -2.01)),
        (Advantage.ZERO, lambda a: a == 0),
        (Advantage.DYADIC, lambda a: (8 * a == np.rint(8 * a)) & (a != 0) & (np.abs(a) <= 2)),
        (Advantage.HUGE, lambda a: (np.abs(a) >= 1000) & (np.abs(a) <= 9100)),
        (Advantage.TINY, lambda a: (np.abs(a) <= 1.01e-4) & (a != 0)),
    ],
)
@every_dtype
def test_advantages(dtype: DType, advantage: Advantage, holds: Callable[[np.ndarray], np.ndarray]) -> None:
    """One advantage of its kind a completion; per token, every third one with the other sign."""
    for description in one_row(columns=5, advantage=advantage):
        (per_row,) = realise(description, dtype, Level.TOKEN).advantages
        assert holds(per_row)
        per_token = realise(replace(description, token_advantages=True), dtype, Level.TOKEN).advantages[0]
        turned = np.where(np.arange(5) % 3 == 2, -per_token, per_token)
        assert holds(turned).all()


@pytest.mark.parametrize(
    ("reference", "holds"),
    [
        (Reference.TYPICAL, lambda x: (np.abs(x) > 0.05) & (np.abs(x) < 1.1)),
        (Reference.EQUAL, lambda x: x == 0),
        (Reference.ABOVE, lambda x: x > 2.7),
        (Reference.BELOW, lambda x: x < -11),
    ],
)
@every_dtype
def test_references(dtype: DType, reference: Reference, holds: Callable[[np.ndarray], np.ndarray]) -> None:
    """The reference lies on its side of the current log-probability."""
    for description in one_row(reference=reference):
        assert holds(tokens_of(description, dtype, Level.TOKEN).kl_log_ratio).all()


@every_dtype
def test_reference_nearby(dtype: DType) -> None:
    """A near reference differs, by little: less than 0.01, or as little as the dtype can."""
    for description in one_row(reference=Reference.NEAR):
        found = tokens_of(description, dtype, Level.TOKEN)
        distance = np.abs(found.kl_log_ratio)
        least = dtype.ulp(found.batch.logps)[found.mask]
        assert (distance > 0).all()
        assert (distance <= np.maximum(0.0085, 2 * least)).all()


def test_specs_of_a_description() -> None:
    """Bounds and horizon become hyper-parameters; cispo's cap lies where the others clip."""
    description = Description((Row(),), columns=4, bounds=Bounds.CLIP_HIGHER)
    made = realise(description, FLOAT32, Level.SEQUENCE)
    spec = spec_for(description, made, LossType.GRPO, Level.SEQUENCE, 0.5)
    assert (spec.epsilon_low, spec.epsilon_high, spec.beta) == (0.2, 0.28, 0.5)
    assert spec.importance_sampling_level is Level.SEQUENCE
    assert spec_for(description, made, LossType.CISPO, Level.TOKEN, 0.0).ratio_bounds == (0.0, 1.28)
    horizons = [(Horizon.WIDTH, 4), (Horizon.LONGER, 7), (Horizon.DEFAULT, 256)]
    for horizon, length in horizons:
        longer = replace(description, horizon=horizon)
        assert spec_for(longer, made, LossType.DR_GRPO, Level.TOKEN, 0.0).max_completion_length == length
