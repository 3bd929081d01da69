"""The named regions of input space, read off the numbers of a case.

A case is in a region when its realised numbers are there, whatever was meant when they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import BFLOAT16, FLOAT32, DType, FloatArray
from cases.spec import KLEstimator, Level, LossType
from cases.split import Mode, Split
from cases.tokens import Tokens

Flags = npt.NDArray[np.bool_]

AT_BOUND_ULPS: Final = 4
JUST_OUTSIDE_ULPS: Final = 256


@dataclass(frozen=True)
class Region:
    """A named part of input space with one line on what is special about it."""

    name: str
    about: str
    holds: Callable[[Tokens], bool]


def _at(distance: FloatArray) -> bool:
    return bool((np.abs(distance) <= AT_BOUND_ULPS).any())


def _just(distance: FloatArray) -> bool:
    return bool(((distance > AT_BOUND_ULPS) & (distance <= JUST_OUTSIDE_ULPS)).any())


def _any(flags: Flags) -> bool:
    return bool(flags.any())


@lru_cache(maxsize=1024)
def _held(dtype: DType, *numbers: float) -> bool:
    return dtype.holds(numbers)


def _inside(t: Tokens) -> Flags:
    return (t.above_high < -AT_BOUND_ULPS) & (t.below_low < -AT_BOUND_ULPS)


def _holes(t: Tokens) -> bool:
    """A masked position before the last unmasked one of its row."""
    after = np.cumsum(t.mask[:, ::-1], axis=1)[:, ::-1]
    return _any(~t.mask & (after > 0))


_REGIONS: Final = (
    Region("ratio_inside", "a ratio inside both clip bounds", lambda t: t.off_policy and _any(_inside(t))),
    Region("ratio_at_low", "a ratio within 4 ulps of the lower clip bound", lambda t: _at(t.below_low)),
    Region("ratio_at_high", "a ratio within 4 ulps of the upper clip bound", lambda t: _at(t.above_high)),
    Region("ratio_just_below_low", "a ratio 5 to 256 ulps below the lower bound", lambda t: _just(t.below_low)),
    Region("ratio_just_above_high", "a ratio 5 to 256 ulps above the upper bound", lambda t: _just(t.above_high)),
    Region(
        "clipped_high",
        "advantage above 0 and ratio above the upper bound: the clip acts",
        lambda t: _any((t.above_high > AT_BOUND_ULPS) & (t.advantage > 0)),
    ),
    Region(
        "clipped_low",
        "advantage below 0 and ratio below the lower bound: the clip acts",
        lambda t: _any((t.below_low > AT_BOUND_ULPS) & (t.advantage < 0)),
    ),
    Region(
        "unclipped_high",
        "advantage below 0 and ratio above the upper bound: the minimum keeps the ratio",
        lambda t: _any((t.above_high > AT_BOUND_ULPS) & (t.advantage < 0)),
    ),
    Region(
        "unclipped_low",
        "advantage above 0 and ratio below the lower bound: the minimum keeps the ratio",
        lambda t: _any((t.below_low > AT_BOUND_ULPS) & (t.advantage > 0)),
    ),
    Region("ratio_far", "a ratio above 3, where a dual clip would act", lambda t: _any(t.ratio > 3)),
    Region("log_ratio_beyond_20", "a log-ratio beyond 20", lambda t: _any(np.abs(t.log_ratio) > 20)),
    Region(
        "ratio_overflow",
        "a ratio larger than the dtype can hold",
        lambda t: _any(t.log_ratio > np.log(t.batch.dtype.largest)),
    ),
    Region("on_policy", "no old log-probabilities", lambda t: not t.off_policy),
    Region("advantage_positive", "an advantage above 0", lambda t: _any(t.advantage > 0)),
    Region("advantage_negative", "an advantage below 0", lambda t: _any(t.advantage < 0)),
    Region("advantage_zero", "an advantage of 0", lambda t: _any(t.advantage == 0)),
    Region("advantage_huge", "an advantage of at least 1000", lambda t: _any(np.abs(t.advantage) >= 1000)),
    Region(
        "advantage_tiny",
        "an advantage of at most 1e-4, not 0",
        lambda t: _any((np.abs(t.advantage) <= 1e-4) & (t.advantage != 0)),
    ),
    Region("advantage_per_token", "advantages of shape (B, T)", lambda t: t.batch.advantages.ndim == 2),
    Region("ref_equal", "reference equal to current", lambda t: _any(t.kl_log_ratio == 0)),
    Region(
        "ref_near",
        "reference within 0.01 of current: k3 cancels",
        lambda t: _any((np.abs(t.kl_log_ratio) < 0.01) & (t.kl_log_ratio != 0)),
    ),
    Region("ref_above", "k3 above 10, reference more likely", lambda t: _any(t.kl_log_ratio > 2.7)),
    Region("ref_below", "k3 above 10, reference less likely", lambda t: _any(t.kl_log_ratio < -11)),
    Region("one_token", "a batch of one token", lambda t: t.mask.size == 1),
    Region("one_row", "B = 1", lambda t: t.batch.rows == 1),
    Region("one_column", "T = 1", lambda t: t.batch.columns == 1),
    Region("square", "B = T, above 1", lambda t: t.batch.rows == t.batch.columns > 1),
    Region(
        "row_empty",
        "a completion without tokens beside one with",
        lambda t: 0 in t.batch.lengths and _any(t.mask),
    ),
    Region("batch_empty", "no token at all", lambda t: not t.mask.any()),
    Region(
        "row_of_one_token",
        "a completion of one token, T above 1",
        lambda t: 1 in t.batch.lengths and t.mask.shape[1] > 1,
    ),
    Region("row_full", "a completion that fills T", lambda t: t.batch.columns in t.batch.lengths),
    Region("masked_position", "a masked position", lambda t: not bool(t.mask.all())),
    Region("holes", "a masked position inside a completion", _holes),
    Region("lengths_equal", "several completions, all of one length below T", lambda t: _lengths_equal(t.batch)),
    Region("lengths_ragged", "completions of different lengths", lambda t: len(set(t.batch.lengths)) > 1),
    Region("bounds_asymmetric", "epsilon_high differs from epsilon_low", lambda t: abs(t.high + t.low - 2) > 1e-6),
    Region(
        "bounds_dyadic",
        "clip bounds that every dtype holds exactly",
        lambda t: _held(BFLOAT16, t.low, t.high),
    ),
)

_OPTION_REGIONS: Final = (
    Region("delta_above", "delta above the upper clip bound", lambda t: (t.case.spec.delta or 0) > t.high),
    Region("delta_below", "delta below the upper clip bound", lambda t: 0 < (t.case.spec.delta or 0) < t.high),
    Region("ratio_at_delta", "a ratio within 4 ulps of delta", lambda t: _at(t.above_delta)),
    Region("ratio_above_delta", "a ratio above delta", lambda t: _any(t.above_delta > AT_BOUND_ULPS)),
    Region(
        "kl_bias_corrected",
        "a KL term that is multiplied by the ratio",
        lambda t: t.case.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED,
    ),
    Region(
        "importance_per_token",
        "importance ratios of shape (B, T)",
        lambda t: t.batch.importance_ratio is not None and t.batch.importance_ratio.shape == t.mask.shape,
    ),
    Region(
        "importance_per_row",
        "importance ratios of shape (B, 1), T above 1",
        lambda t: t.batch.importance_ratio is not None and t.batch.importance_ratio.shape != t.mask.shape,
    ),
    Region("importance_zero", "an importance ratio of 0", lambda t: _any(t.importance == 0)),
    Region(
        "off_policy_dropped", "a completion that the off-policy mask drops", lambda t: _any(t.above_threshold > 0)
    ),
    Region(
        "off_policy_kept",
        "a completion that the off-policy mask could drop",
        lambda t: _any(t.above_threshold <= 0),
    ),
    Region(
        "off_policy_at_threshold",
        "a completion whose drift rounding cannot tell from the threshold",
        lambda t: _any(np.abs(t.above_threshold) <= 8 * t.batch.dtype.unit_roundoff),
    ),
    Region("accumulation", "several accumulation steps", lambda t: t.case.split.accumulation_steps > 1),
    Region("ranks", "several ranks", lambda t: t.case.split.ranks > 1),
    Region(
        "generation_batch",
        "a generation batch of several optimizer steps",
        lambda t: t.case.split.steps_per_generation > t.case.split.accumulation_steps,
    ),
    Region(
        "micro_batches_uneven",
        "micro-batches of different token counts",
        lambda t: len(set(t.micro_batch_tokens)) > 1,
    ),
    Region("eval_mode", "evaluation, where nothing is accumulated", lambda t: t.case.split.mode is Mode.EVAL),
    Region(
        "temperature_beyond_float32",
        "a temperature of sapo that float32 cannot hold",
        lambda t: (
            t.case.spec.loss_type is LossType.SAPO
            and not _held(FLOAT32, t.case.spec.sapo_temperature_pos, t.case.spec.sapo_temperature_neg)
        ),
    ),
    Region(
        "window_beyond_float32",
        "a token count per rank and step that float32 cannot hold",
        lambda t: not _held(FLOAT32, t.batch.tokens / t.case.split.ranks, t.window_share),
    ),
)

REGIONS: Final = {region.name: region for region in _REGIONS + _OPTION_REGIONS}


def _lengths_equal(batch: Batch) -> bool:
    lengths = batch.lengths
    return batch.rows > 1 and 0 < lengths[0] < batch.columns and bool((lengths == lengths[0]).all())


_OF_THE_SPEC: Final = frozenset(
    {
        "ratio_inside",
        "ratio_at_low",
        "ratio_at_high",
        "ratio_just_below_low",
        "ratio_just_above_high",
        "clipped_high",
        "clipped_low",
        "unclipped_high",
        "unclipped_low",
        "ref_equal",
        "ref_near",
        "ref_above",
        "ref_below",
        "bounds_asymmetric",
        "bounds_dyadic",
        "delta_above",
        "delta_below",
        "ratio_at_delta",
        "ratio_above_delta",
        "kl_bias_corrected",
        "off_policy_dropped",
        "off_policy_kept",
        "off_policy_at_threshold",
        "temperature_beyond_float32",
    }
)
"""Regions that depend on more than the batch, its split and the ratio that the loss takes."""


class Locator:
    """Finds the regions of cases, of which many share a batch: what depends on that alone is found once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, Split, Level, bool], tuple[Batch, frozenset[str]]] = {}

    def regions_of(self, case: Case) -> tuple[str, ...]:
        """Names of the regions that a case is in, in the order of `REGIONS`."""
        spec, tokens = case.spec, Tokens(case)
        key = id(case.batch), case.split, spec.importance_sampling_level, spec.loss_type is LossType.GMPO
        if key not in self._found:
            shared = (one for name, one in REGIONS.items() if name not in _OF_THE_SPEC)
            # With the batch, whose id is no other's as long as it is held.
            self._found[key] = case.batch, frozenset(one.name for one in shared if one.holds(tokens))
        found = self._found[key][1]
        return tuple(
            name
            for name, region in REGIONS.items()
            if (region.holds(tokens) if name in _OF_THE_SPEC else name in found)
        )


def regions_of(case: Case) -> tuple[str, ...]:
    """Names of the regions that a case is in, in the order of `REGIONS`."""
    return Locator().regions_of(case)


def missing(needed: Iterable[str], hit: Iterable[str]) -> tuple[str, ...]:
    """The needed regions that were not hit, sorted."""
    return tuple(sorted(set(needed) - set(hit)))
