"""Cases as a target would see them that leaves something out or takes one thing for another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from cases.batch import Mask
from cases.case import Case
from cases.dtypes import BFLOAT16, FLOAT16, FLOAT32, FloatArray
from cases.spec import KLEstimator, Level, LossSpec, LossType
from cases.split import Split


def otherwise(case: Case) -> Iterator[tuple[str, Case]]:
    """What may be done otherwise, in words, and the case that it amounts to; only where it is another case."""
    for make in (_options, _inputs, _numbers, _clamps, _rounded):
        for words, changed in make(case):
            try:
                fields = changed.get("spec")
                spec = replace(case.spec, **fields) if isinstance(fields, dict) else fields or case.spec
                other = replace(case, **{**changed, "spec": spec})
            except ValueError:
                # A case that there cannot be, such as a KL term without a reference.
                continue
            if other.id != case.id:
                yield words, other


def _options(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    spec, batch = case.spec, case.batch
    if spec.delta is not None:
        yield "delta ignored", {"spec": replace(spec, delta=None)}
        yield "delta taken as 1 + delta", {"spec": replace(spec, delta=1.0 + spec.delta)}
    if spec.off_policy_mask_threshold is not None:
        yield "off-policy mask ignored", {"spec": replace(spec, off_policy_mask_threshold=None)}
        yield "sampling_logps ignored, old_logps in their place", {"batch": replace(batch, sampling_logps=None)}
    if batch.importance_ratio is not None:
        ratio = batch.importance_ratio
        yield "importance ratio ignored", {"batch": replace(batch, importance_ratio=None)}
        yield (
            "importance ratios above 1 taken for 1",
            {"batch": replace(batch, importance_ratio=np.minimum(ratio, 1.0))},
        )
        if ratio.shape != batch.mask.shape and batch.rows == batch.columns:
            across = np.broadcast_to(ratio.T, batch.mask.shape).copy()
            yield (
                "importance ratios of completions spread along tokens",
                {"batch": replace(batch, importance_ratio=across)},
            )
    if spec.beta:
        yield "KL term missing", {"spec": replace(spec, beta=0.0)}
        corrected = spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED
        if corrected:
            yield "bias correction of the KL term ignored", {"spec": replace(spec, kl_estimator=KLEstimator.K3)}
        elif spec.kl_estimator is KLEstimator.K3:
            yield (
                "KL term bias-corrected where it should not be",
                {"spec": replace(spec, kl_estimator=KLEstimator.K3_BIAS_CORRECTED)},
            )
    level = Level.TOKEN if spec.importance_sampling_level is Level.SEQUENCE else Level.SEQUENCE
    yield f"ratio at {level} level", {"spec": replace(spec, importance_sampling_level=level)}
    if not case.split.is_whole:
        yield "the whole generation batch taken as one step", {"split": Split()}
        yield (
            "evaluation taken for training" if case.split.mode == "eval" else "training taken for evaluation",
            {"split": replace(case.split, mode="train" if case.split.mode == "eval" else "eval")},  # type: ignore[arg-type]  # made a member
        )


def _inputs(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    batch = case.batch
    if batch.old_logps is not None:
        yield "old_logps ignored: the ratio is 1", {"batch": replace(batch, old_logps=None)}
        if batch.ref_logps is not None:
            yield "ref_logps taken for old_logps", {"batch": replace(batch, old_logps=batch.ref_logps)}
            yield "old_logps taken for ref_logps", {"batch": replace(batch, ref_logps=batch.old_logps)}
    yield "advantages in reverse order", {"batch": replace(batch, advantages=batch.advantages[::-1].copy())}
    yield "advantages with the wrong sign", {"batch": replace(batch, advantages=-batch.advantages)}
    if batch.advantages.ndim == 2:
        mean = _row_mean(batch.advantages, batch.mask)
        yield (
            "advantages averaged over each completion",
            {"batch": replace(batch, advantages=batch.dtype.round(mean))},
        )
        padded = batch.dtype.round(batch.advantages.mean(axis=1))
        yield (
            "advantages averaged over each row, masked positions counted",
            {"batch": replace(batch, advantages=padded)},
        )
        yield "one advantage a completion, its first", {"batch": replace(batch, advantages=batch.advantages[:, 0])}
        if batch.rows == batch.columns:
            yield "advantages transposed", {"batch": replace(batch, advantages=batch.advantages.T.copy())}
    elif batch.rows == batch.columns:
        across = np.broadcast_to(batch.advantages, batch.mask.shape).copy()
        yield "advantages spread along tokens instead of completions", {"batch": replace(batch, advantages=across)}
    if batch.sampling_logps is not None:
        yield "sampling_logps taken for old_logps", {"batch": replace(batch, old_logps=batch.sampling_logps)}
    yield from _advantages(case)
    if case.spec.off_policy_mask_threshold is not None:
        kept = batch.mask & ~_dropped(case)
        yield (
            "what the off-policy mask drops is masked, and counts nowhere",
            {"batch": replace(batch, mask=kept), "spec": replace(case.spec, off_policy_mask_threshold=None)},
        )
    for words, mask in (
        ("mask ignored", np.ones_like(batch.mask)),
        ("tokens with an advantage of 0 masked", batch.mask & (batch.token_advantages != 0)),
        ("tokens with an advantage below 0 masked", batch.mask & (batch.token_advantages >= 0)),
        ("the first token of each completion masked", batch.mask & (np.cumsum(batch.mask, axis=1) > 1)),
        ("all but the first token of each completion masked", batch.mask & (np.cumsum(batch.mask, axis=1) == 1)),
        ("all but the last token of each completion masked", batch.mask & ~_without_last(batch.mask)),
        ("the last token of each completion masked", _without_last(batch.mask)),
        ("mask taken as a prefix of its length", _prefix(batch.mask)),
        ("mask taken as a suffix of its length", _prefix(batch.mask)[:, ::-1].copy()),
        ("mask shifted left by one", _shifted(batch.mask, -1)),
        ("mask shifted right by one", _shifted(batch.mask, 1)),
    ):
        yield words, {"batch": replace(batch, mask=mask)}


def _rounded(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    batch = case.batch
    for dtype in (FLOAT32, BFLOAT16, FLOAT16):
        if dtype.unit_roundoff <= batch.dtype.unit_roundoff:
            continue
        for name in ("advantages", "logps", "old_logps", "ref_logps", "sampling_logps", "importance_ratio"):
            values = getattr(batch, name)
            if values is not None:
                changed: dict[str, Any] = {name: batch.dtype.round(dtype.round(values))}
                yield f"{name} rounded to {dtype.name}", {"batch": replace(batch, **changed)}


def _advantages(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    batch = case.batch
    given = batch.advantages
    for words, values in (
        ("advantages without their sign", np.abs(given)),
        ("advantages replaced by their sign", np.sign(given)),
        ("advantages below 0 taken for 0", np.maximum(given, 0.0)),
        ("advantages above 0 taken for 0", np.minimum(given, 0.0)),
        ("advantages squared", given * given),
        ("an advantage of 1 everywhere", np.ones_like(given)),
    ):
        rounded = batch.dtype.round(values)
        # The square of a huge one may be beyond the dtype.
        if np.isfinite(rounded).all():
            yield words, {"batch": replace(batch, advantages=rounded)}


def _dropped(case: Case) -> Mask:
    """Tokens of completions that the off-policy mask drops, of negative advantages."""
    batch, threshold = case.batch, case.spec.off_policy_mask_threshold
    assert threshold is not None, "asked of a case with an off-policy mask"
    sampled = batch.old_logps if batch.sampling_logps is None else batch.sampling_logps
    drift = _row_mean((batch.logps if sampled is None else sampled) - batch.logps, batch.mask)
    dropped: Mask = (drift > threshold)[:, None] & (batch.token_advantages < 0)
    return dropped


_OWN = {
    LossType.SAPO: ("sapo_temperature_pos", "sapo_temperature_neg"),
    LossType.VESPO: ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
}


def _numbers(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    spec, batch = case.spec, case.batch

    def with_spec(**fields: Any) -> dict[str, Any]:
        return {"spec": fields}

    if spec.loss_type.clips:
        yield (
            "ratio clipped to [exp(-epsilon_low), exp(epsilon_high)]",
            with_spec(epsilon_low=-math.expm1(-spec.epsilon_low), epsilon_high=math.expm1(spec.epsilon_high)),
        )
        yield "ratio clipped below at 1 / (1 + epsilon_low)", with_spec(epsilon_low=1 - 1 / (1 + spec.epsilon_low))
        yield (
            "ratio clipped above at 1 / (1 - epsilon_low)",
            with_spec(epsilon_high=1 / (1 - spec.epsilon_low) - 1),
        )
        yield (
            "ratio clipped above at epsilon_high, not 1 + epsilon_high",
            with_spec(epsilon_high=spec.epsilon_high - 1),
        )
        yield (
            "ratio clipped below at epsilon_low, not 1 - epsilon_low",
            with_spec(epsilon_low=1 - spec.epsilon_low),
        )
    if spec.loss_type is LossType.DR_GRPO:
        yield "max_completion_length ignored, T in its place", with_spec(max_completion_length=batch.columns)
    plain = LossSpec(spec.loss_type)
    own = {name: getattr(plain, name) for name in _OWN.get(spec.loss_type, ())}
    if own:
        told = ", ".join(f"{value:g}" for value in own.values())
        yield f"{spec.loss_type}'s own parameters ignored, {told} in their place", with_spec(**own)
    if spec.loss_type is LossType.SAPO:
        pos, neg = spec.sapo_temperature_pos, spec.sapo_temperature_neg
        yield "sapo's temperatures exchanged", with_spec(sapo_temperature_pos=neg, sapo_temperature_neg=pos)
        yield "one temperature of sapo for both signs", with_spec(sapo_temperature_neg=pos)
        yield "the other temperature of sapo for both signs", with_spec(sapo_temperature_pos=neg)
    if spec.loss_type is LossType.VESPO:
        exchanged = {
            "vespo_k_pos": spec.vespo_k_neg,
            "vespo_lambda_pos": spec.vespo_lambda_neg,
            "vespo_k_neg": spec.vespo_k_pos,
            "vespo_lambda_neg": spec.vespo_lambda_pos,
        }
        yield "vespo's parameters exchanged", with_spec(**exchanged)
    if spec.loss_type is LossType.CISPO:
        yield "cap of 1 + epsilon_high", with_spec(epsilon_high=1.0 + spec.epsilon_high)
        yield "cap of epsilon_high - 1", with_spec(epsilon_high=spec.epsilon_high - 1.0)


def _clamps(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    spec = case.spec

    def under(**fields: Any) -> dict[str, Any]:
        return {"spec": replace(spec, conventions=replace(spec.conventions, **fields))}

    for bound in (20.0, 10.0, 5.0):
        yield f"log-ratio clamped to {bound:g} in size", under(log_ratio_bounds=(-bound, bound))
    yield "log-ratio clamped to at most 10", under(log_ratio_bounds=(None, 10.0))
    if spec.beta:
        yield "KL estimate clamped to 10 in size", under(kl_bound=10.0)
        yield "log-ratio of the KL term clamped to 20 in size", under(kl_log_ratio_bound=20.0)
        yield (
            "KL estimate clamped to 10 and its log-ratio to 20 in size",
            under(kl_bound=10.0, kl_log_ratio_bound=20.0),
        )
    for epsilon in (1e-8, 1e-6, 1e-5, 1e-4):
        yield f"{epsilon:g} added to the number of tokens", under(denominator_epsilon=epsilon)


def _row_mean(values: FloatArray, mask: Mask) -> FloatArray:
    lengths = np.maximum(mask.sum(axis=1), 1)
    mean: FloatArray = np.where(mask, values, 0.0).sum(axis=1) / lengths
    return mean


def _prefix(mask: Mask) -> Mask:
    columns = np.arange(mask.shape[1])
    prefix: Mask = columns < mask.sum(axis=1)[:, None]
    return prefix


def _without_last(mask: Mask) -> Mask:
    after = np.cumsum(mask[:, ::-1], axis=1)[:, ::-1]
    return mask & (after > 1)


def _shifted(mask: Mask, by: int) -> Mask:
    shifted = np.roll(mask, by, axis=1)
    shifted[:, 0 if by > 0 else -1] = False
    return shifted
