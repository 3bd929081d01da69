"""Faults in the importance ratio of the sampler and in the off-policy mask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from ...target import TensorCase
from .fault import LOSSES, Fault
from .steps import Aggregate, Steps
from .terms import HIGHEST, by_token, completion_mean, completion_sum, drift, kept, log_importance, sampled

_FACTOR = tuple(loss_type for loss_type in LOSSES if loss_type != "vespo")
"""Losses that multiply the policy term by the importance ratio."""

_RATIO, _MASK = ("importance_ratio",), ("off_policy_mask",)


def _left_out(policy: Tensor, _factor: Tensor) -> Tensor:
    return policy


def _importance_on_all(
    policy: Tensor, kl: Tensor, _ratio: Tensor, case: TensorCase, aggregate: Aggregate
) -> Tensor:
    losses = policy + case.spec.beta * kl
    return aggregate(losses if case.importance_ratio is None else losses * case.importance_ratio)


def _mask_on_all(policy: Tensor, kl: Tensor, _ratio: Tensor, case: TensorCase, aggregate: Aggregate) -> Tensor:
    losses = policy + case.spec.beta * kl
    without = case.spec.off_policy_mask_threshold is None
    return aggregate(losses if without else losses * kept(drift(case), case))


def _along_columns(policy: Tensor, importance_ratio: Tensor) -> Tensor:
    rows, columns = importance_ratio.shape
    turned = columns == 1 and policy.shape[-1] in (1, rows)
    return policy * (importance_ratio.T if turned else importance_ratio)


def _without_ratio(case: TensorCase) -> TensorCase:
    return replace(case, importance_ratio=None)


def _once(log_ratios: Tensor, case: TensorCase) -> Tensor:
    total = completion_sum(log_ratios.clamp(-HIGHEST, HIGHEST), case)
    ratio = case.importance_ratio
    if ratio is None:
        return total
    logs = log_importance(ratio)
    return total + (logs if ratio.shape[1] == 1 else completion_sum(logs, case))


def _row_dropped(drifts: Tensor, case: TensorCase) -> Tensor:
    return drifts <= case.spec.off_policy_mask_threshold


def _equality_drops(drifts: Tensor, case: TensorCase) -> Tensor:
    return (by_token(case) >= 0) | (drifts < case.spec.off_policy_mask_threshold)


def _edited_mask(case: TensorCase) -> TensorCase:
    if case.spec.off_policy_mask_threshold is None:
        return case
    return replace(case, mask=case.mask & kept(drift(case), case))


def _without_sampler(case: TensorCase) -> TensorCase:
    return replace(case, sampling_logps=None)


def _sum(case: TensorCase) -> Tensor:
    return completion_sum(sampled(case) - case.logps.detach(), case)


def _absolute(case: TensorCase) -> Tensor:
    return completion_mean((sampled(case) - case.logps.detach()).abs(), case)


def _drift(by: Callable[[TensorCase], Tensor], name: str, wrong: str) -> Fault:
    return Fault(name, wrong, Steps(drift=by), needs=_MASK)


FAULTS = (
    Fault("importance_ignored", "the importance ratio is ignored", Steps(inputs=_without_ratio), needs=_RATIO),
    Fault(
        "importance_on_kl",
        "the importance ratio multiplies the KL term, too",
        Steps(weigh=_left_out, combine=_importance_on_all),
        _FACTOR,
        needs=("beta", *_RATIO),
    ),
    Fault(
        "importance_transposed",
        "where B = T, importance ratios of completions are spread along tokens",
        Steps(weigh=_along_columns),
        _FACTOR,
        needs=_RATIO,
    ),
    Fault(
        "importance_at_most_1",
        "importance ratios above 1 are taken for 1",
        Steps(weigh=lambda policy, ratio: policy * ratio.clamp(max=1)),
        _FACTOR,
        needs=_RATIO,
    ),
    Fault(
        "vespo_importance_once",
        "the importance ratio of a completion enters log W once, not for every token",
        Steps(log_weight=_once),
        ("vespo",),
        needs=_RATIO,
    ),
    Fault("off_mask_ignored", "the off-policy mask is left out", Steps(drop=_left_out), needs=_MASK),
    Fault(
        "off_mask_both_signs",
        "the off-policy mask drops tokens with positive advantages, too",
        Steps(kept=_row_dropped),
        needs=_MASK,
    ),
    Fault(
        "off_mask_at_equality",
        "the off-policy mask drops where the drift equals the threshold, too",
        Steps(kept=_equality_drops),
        needs=_MASK,
    ),
    Fault(
        "off_mask_old",
        "the off-policy mask reads old_logps although sampling_logps are given",
        Steps(inputs=_without_sampler),
        needs=_MASK,
    ),
    Fault(
        "off_mask_edits_mask",
        "what the off-policy mask drops is masked: it has no KL term and does not count in lengths",
        Steps(inputs=_edited_mask, drop=_left_out),
        needs=("beta", *_MASK),
    ),
    Fault(
        "off_mask_on_kl",
        "the off-policy mask drops the KL term, too",
        Steps(drop=_left_out, combine=_mask_on_all),
        needs=("beta", *_MASK),
    ),
    _drift(_sum, "off_mask_sum", "the off-policy mask sums the drift of a completion and takes no mean"),
    _drift(lambda case: -drift(case), "off_mask_sign", "the off-policy mask takes the drift the wrong way round"),
    _drift(_absolute, "off_mask_absolute", "the off-policy mask takes the mean of the absolute differences"),
)
