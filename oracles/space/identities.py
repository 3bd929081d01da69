"""Points of the space that are one formula: each identity rewrites a point to the one that stands for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from oracles.space.variant import KL, Aggregation, Placement, Ratio, Rows, Surrogate, Variant, Weighting

_OWN_RATIO: Final = (Surrogate.GAMMA, Surrogate.GEOMETRIC, Surrogate.REINFORCE)
_DETACHED: Final = (
    Surrogate.CAP,
    Surrogate.CAP_ABOVE_ONE,
    Surrogate.CAP_TWO_SIDED,
    Surrogate.DETACHED,
    Surrogate.CLIP_DETACHED,
)
_CLIPS: Final = (
    Surrogate.CLIP,
    Surrogate.DUAL_CLIP,
    Surrogate.UNCLIPPED,
    Surrogate.CLIP_BY_LOW,
    Surrogate.CLIP_BY_HIGH,
    Surrogate.CLIP_SWAPPED,
    Surrogate.CLIP_ALONE,
    Surrogate.CLIP_LARGER,
    Surrogate.CLIP_PASSING,
)
_ABOVE_ONE: Final = (Surrogate.CAP_ABOVE_ONE, Surrogate.DETACHED, Surrogate.CLIP_DETACHED)
_WITH_RATIO: Final = (KL.K3_BIAS_CORRECTED, KL.K3_RATIO_DETACHED, KL.K3_CORRECTS_DETACHED, KL.K3_DIVIDED)
_TOKEN_MEANS: Final = (Aggregation.TOKEN_MEAN, Aggregation.STEP_TOKEN_MEAN)
_ROWLESS: Final = (*_TOKEN_MEANS, Aggregation.CONSTANT_ALONE, Aggregation.TOKEN_SUM)


@dataclass(frozen=True)
class Identity:
    """A sentence, and the rewriting that it allows; `in_one_piece` where it holds for a batch without a split."""

    about: str
    rewrite: Callable[[Variant], Variant]
    in_one_piece: bool = False


def _no_kl(one: Variant) -> Variant:
    if one.kl is not KL.NONE:
        return one
    weighting = Weighting.POLICY if one.weighting is Weighting.BOTH else one.weighting
    return replace(one, placement=Placement.WITH_POLICY, weighting=weighting)


def _ratio_of_one(one: Variant) -> Variant:
    if one.ratio is not Ratio.ON_POLICY:
        return one
    if one.surrogate in _CLIPS:
        one = replace(one, surrogate=Surrogate.CLIP)
    if one.surrogate in _ABOVE_ONE:
        one = replace(one, surrogate=Surrogate.REINFORCE)
    return replace(one, kl=KL.K3) if one.kl is KL.K3_RATIO_DETACHED else one


def _own_ratio(one: Variant) -> Variant:
    free = one.surrogate in _OWN_RATIO and one.kl not in _WITH_RATIO
    return replace(one, ratio=Ratio.TOKEN) if free else one


def _detached(one: Variant) -> Variant:
    free = one.surrogate in _DETACHED and one.kl not in _WITH_RATIO
    return replace(one, ratio=Ratio.SEQUENCE) if free and one.ratio is Ratio.SEQUENCE_TOKEN else one


def _rowless(one: Variant) -> Variant:
    by_rows = one.placement is Placement.SEQUENCE_MEAN
    return replace(one, rows=Rows.COUNTED) if one.aggregation in _ROWLESS and not by_rows else one


def _same_mean(one: Variant) -> Variant:
    token = one.placement is Placement.TOKEN_MEAN and one.aggregation is Aggregation.STEP_TOKEN_MEAN
    micro = one.placement is Placement.MICRO_BATCH_MEAN and one.aggregation is Aggregation.TOKEN_MEAN
    sequence = one.placement is Placement.SEQUENCE_MEAN and one.aggregation is Aggregation.SEQUENCE_MEAN
    return replace(one, placement=Placement.WITH_POLICY) if token or micro or sequence else one


def _one_piece(one: Variant) -> Variant:
    apart = one.rows is Rows.NOT_COUNTED_APART
    one = replace(one, rows=Rows.NOT_COUNTED) if apart else one
    step = one.aggregation is Aggregation.STEP_TOKEN_MEAN
    one = replace(one, aggregation=Aggregation.TOKEN_MEAN) if step else one
    micro = one.placement is Placement.MICRO_BATCH_MEAN
    one = replace(one, placement=Placement.TOKEN_MEAN) if micro else one
    own = one.placement is Placement.TOKEN_MEAN and one.aggregation is Aggregation.TOKEN_MEAN
    return replace(one, placement=Placement.WITH_POLICY) if own else one


IDENTITIES: Final = (
    Identity("without a KL term, its placement says nothing, nor whether it is weighed", _no_kl),
    Identity("a ratio of 1 lies inside every clip, and leaves what it multiplies as it is", _ratio_of_one),
    Identity(
        "vespo, gmpo and REINFORCE have a ratio of their own, or none: both levels are one formula", _own_ratio
    ),
    Identity("a detached ratio passes no gradient, to one token or to all", _detached),
    Identity("a mean over tokens has no completions to count", _rowless),
    Identity("a KL term averaged as the policy terms are stands with them", _same_mean),
    Identity("the micro-batch is the step where nothing is split: bnpo is dapo", _one_piece, in_one_piece=True),
)


def canonical(variant: Variant, in_one_piece: bool = False) -> Variant:
    """The point that stands for all that are the same formula; `in_one_piece` for batches without a split."""
    for identity in IDENTITIES:
        if in_one_piece or not identity.in_one_piece:
            variant = identity.rewrite(variant)
    return variant
