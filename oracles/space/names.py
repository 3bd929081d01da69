"""Which point of the space a named loss is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from cases.conventions import CispoClip, EmptyRows, KLAggregation, SequenceGradient
from cases.spec import KLEstimator, Level, LossSpec, LossType
from oracles.space.identities import canonical
from oracles.space.variant import KL, Aggregation, Placement, Ratio, Rows, Surrogate, Variant

_AGGREGATIONS: Final = {
    LossType.GRPO: Aggregation.SEQUENCE_MEAN,
    LossType.BNPO: Aggregation.TOKEN_MEAN,
    LossType.DR_GRPO: Aggregation.CONSTANT,
    LossType.DAPO: Aggregation.STEP_TOKEN_MEAN,
    LossType.CISPO: Aggregation.STEP_TOKEN_MEAN,
    LossType.SAPO: Aggregation.SEQUENCE_MEAN,
    LossType.LUSPO: Aggregation.SEQUENCE_SUM,
    LossType.VESPO: Aggregation.STEP_TOKEN_MEAN,
    LossType.GMPO: Aggregation.SEQUENCE_MEAN,
}
_SURROGATES: Final = {
    LossType.CISPO: Surrogate.CAP,
    LossType.SAPO: Surrogate.SOFT_GATE,
    LossType.VESPO: Surrogate.GAMMA,
    LossType.GMPO: Surrogate.GEOMETRIC,
}
_KL: Final = {
    KLEstimator.K1: KL.K1,
    KLEstimator.K2: KL.K2,
    KLEstimator.K3: KL.K3,
    KLEstimator.K3_BIAS_CORRECTED: KL.K3_BIAS_CORRECTED,
}


def variant_of(spec: LossSpec) -> Variant:
    """The point that a loss spec is under its conventions, as `canonical` has it."""
    conventions = spec.conventions
    surrogate = _SURROGATES.get(spec.loss_type, Surrogate.CLIP)
    if surrogate is Surrogate.CLIP and conventions.dual_clip is not None:
        surrogate = Surrogate.DUAL_CLIP
    if surrogate is Surrogate.CAP and conventions.cispo_clip is CispoClip.TWO_SIDED:
        surrogate = Surrogate.CAP_TWO_SIDED
    ratio = Ratio.TOKEN
    if spec.importance_sampling_level is Level.SEQUENCE:
        token = conventions.sequence_gradient is SequenceGradient.TOKEN
        ratio = Ratio.SEQUENCE_TOKEN if token else Ratio.SEQUENCE
    apart = conventions.kl_aggregation is KLAggregation.TOKEN_MEAN
    not_counted = conventions.empty_rows is EmptyRows.NOT_COUNTED
    return canonical(
        Variant(
            aggregation=_AGGREGATIONS[spec.loss_type],
            ratio=ratio,
            surrogate=surrogate,
            kl=_KL[spec.kl_estimator] if spec.beta > 0 else KL.NONE,
            placement=Placement.TOKEN_MEAN if apart else Placement.WITH_POLICY,
            rows=Rows.NOT_COUNTED if not_counted else Rows.COUNTED,
        )
    )


def name_of(variant: Variant) -> str:
    """What the field calls a point, such as "bnpo" or "grpo at sequence level (GSPO)"; "" where it has no name.

    Only the policy term and its aggregation are named; a KL term, and which rows count, are told apart from it.
    """
    bare = canonical(Variant(variant.aggregation, variant.ratio, variant.surrogate))
    if bare in _NAMES:
        return _NAMES[bare]
    for plain, words in _ADDITIONS:
        base = replace(bare, **plain(bare))
        if base != bare and name_of(base):
            return f"{name_of(base)}, {words}"
    return ""


def loss_of(variant: Variant) -> tuple[LossType, Level] | None:
    """The loss and level that have a point's policy term and aggregation, where there are any."""
    bare = canonical(Variant(variant.aggregation, variant.ratio, variant.surrogate))
    losses = ((loss_type, level) for level in Level for loss_type in LossType)
    return next((loss for loss in losses if variant_of(LossSpec(*loss)) == bare), None)


def _named() -> dict[Variant, str]:
    names: dict[Variant, str] = {}
    for loss_type in LossType:
        for level in Level:
            point = variant_of(LossSpec(loss_type, level))
            words = str(loss_type) if level is Level.TOKEN else f"{loss_type} at sequence level"
            if loss_type is LossType.GRPO and level is Level.SEQUENCE:
                words += " (GSPO)"
            names.setdefault(point, words)
    gspo_token = Variant(Aggregation.SEQUENCE_MEAN, Ratio.SEQUENCE_TOKEN)
    return {**names, canonical(gspo_token): "GSPO-token"}


def _without_dual_clip(one: Variant) -> dict[str, Surrogate]:
    return {"surrogate": Surrogate.CLIP} if one.surrogate is Surrogate.DUAL_CLIP else {}


def _without_lower_bound(one: Variant) -> dict[str, Surrogate]:
    return {"surrogate": Surrogate.CAP} if one.surrogate is Surrogate.CAP_TWO_SIDED else {}


def _with_gradients_to_all(one: Variant) -> dict[str, Ratio]:
    return {"ratio": Ratio.SEQUENCE} if one.ratio is Ratio.SEQUENCE_TOKEN else {}


_ADDITIONS: Final[tuple[tuple[Callable[[Variant], dict[str, Any]], str], ...]] = (
    (_without_dual_clip, "with a dual clip"),
    (_without_lower_bound, "clipped on both sides"),
    (_with_gradients_to_all, "with a gradient to each token alone"),
)
_NAMES: Final = _named()
