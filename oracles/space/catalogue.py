"""Which points of the space are looked at: the everyday ones, or every one there is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import product

from oracles.space.identities import canonical
from oracles.space.variant import KL, Aggregation, Placement, Ratio, Rows, Surrogate, Variant, Weighting

_EVERYDAY = (
    (
        Aggregation.SEQUENCE_MEAN,
        Aggregation.TOKEN_MEAN,
        Aggregation.STEP_TOKEN_MEAN,
        Aggregation.CONSTANT,
        Aggregation.SEQUENCE_SUM,
        Aggregation.PADDED_MEAN,
    ),
    (Ratio.TOKEN, Ratio.SEQUENCE, Ratio.SEQUENCE_TOKEN),
    (
        Surrogate.CLIP,
        Surrogate.DUAL_CLIP,
        Surrogate.UNCLIPPED,
        Surrogate.CLIP_BY_LOW,
        Surrogate.CAP,
        Surrogate.CAP_TWO_SIDED,
        Surrogate.SOFT_GATE,
        Surrogate.GAMMA,
        Surrogate.GEOMETRIC,
    ),
    (KL.NONE, KL.K1, KL.K2, KL.K3, KL.K3_BIAS_CORRECTED),
    (Placement.WITH_POLICY, Placement.TOKEN_MEAN),
    (Rows.COUNTED, Rows.NOT_COUNTED),
    (Weighting.POLICY,),
)
_WHOLE = (
    Aggregation,
    Ratio,
    Surrogate,
    KL,
    Placement,
    (Rows.COUNTED, Rows.NOT_COUNTED),
    (Weighting.POLICY,),
)


@cache
def everyday() -> tuple[Variant, ...]:
    """The points that implementations are met at, each formula once."""
    return _distinct(product(*_EVERYDAY))


@cache
def whole() -> tuple[Variant, ...]:
    """The everyday points, and every combination of choices otherwise, each formula once."""
    return tuple(dict.fromkeys((*everyday(), *_distinct(product(*_WHOLE)))))


def weighted(point: Variant) -> tuple[Variant, ...]:
    """A point and what it would be with importance ratios on other terms, each formula once."""
    return tuple(dict.fromkeys(canonical(replace(point, weighting=weighting)) for weighting in Weighting))


def _distinct(points: object) -> tuple[Variant, ...]:
    return tuple(dict.fromkeys(canonical(Variant(*point)) for point in points))  # type: ignore[attr-defined]
