"""The formula of a loss as plain-text mathematics, and where it is from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cases.case import Case
from cases.conventions import CispoClip, EmptyRows, KLAggregation, SequenceGradient, WindowTokens
from cases.spec import KLEstimator, Level, LossSpec, LossType
from cases.split import Mode

_MEAN_OF_MEANS: Final = "1/B sum_i 1/n_i sum_t"
_STEP_MEAN: Final = "1/N sum_i sum_t"
_AGGREGATIONS: Final = {
    LossType.GRPO: _MEAN_OF_MEANS,
    LossType.BNPO: _STEP_MEAN,
    LossType.DR_GRPO: "1/(B max_completion_length) sum_i sum_t",
    LossType.DAPO: _STEP_MEAN,
    LossType.CISPO: _STEP_MEAN,
    LossType.SAPO: _MEAN_OF_MEANS,
    LossType.LUSPO: "1/B sum_i sum_t",
    LossType.VESPO: _STEP_MEAN,
    LossType.GMPO: _MEAN_OF_MEANS,
}
_SOURCES: Final = {
    LossType.GRPO: "Shao et al. 2024, DeepSeekMath, arXiv 2402.03300",
    LossType.BNPO: 'no paper; TRL\'s loss_type="bnpo", the token mean of the micro-batch',
    LossType.DR_GRPO: "Liu et al. 2025, Dr. GRPO, arXiv 2503.20783; the constant is in the authors' code",
    LossType.DAPO: "Yu et al. 2025, DAPO, arXiv 2503.14476",
    LossType.CISPO: "MiniMax-M1 2025, arXiv 2506.13585; the absolute cap is that of arXiv 2510.13786",
    LossType.SAPO: "Gao et al. 2025, SAPO, arXiv 2511.20347",
    LossType.LUSPO: "LUSPO, arXiv 2602.05261",
    LossType.VESPO: "VESPO, arXiv 2602.10693; the clips of the logarithms are in the authors' code",
    LossType.GMPO: "Zhao et al. 2025, GMPO, arXiv 2507.20673",
}
_GSPO: Final = "Zheng et al. 2025, GSPO, arXiv 2507.18071"
_KL_SOURCES: Final = {
    KLEstimator.K3_BIAS_CORRECTED: "KL term: DeepSeek-AI 2025, DeepSeek-V3.2, arXiv 2512.02556",
}
_SCHULMAN: Final = "KL term: Schulman, Approximating KL Divergence, joschu.net/blog/kl-approx.html"


def sources(spec: LossSpec) -> Iterator[str]:
    """Where the parts of a formula are from."""
    source = _SOURCES[spec.loss_type]
    by_sequence = spec.importance_sampling_level is Level.SEQUENCE and spec.loss_type.clips
    if by_sequence and spec.loss_type is LossType.GRPO:
        source = _GSPO
    elif by_sequence and spec.loss_type is not LossType.LUSPO:
        source += f"; ratio of a completion: {_GSPO}"
    yield source
    if spec.beta:
        yield _KL_SOURCES.get(spec.kl_estimator, _SCHULMAN)
    if spec.delta is not None:
        yield "Delta: INTELLECT-2 2025, arXiv 2505.07291"
    if spec.off_policy_mask_threshold is not None:
        yield "Off-policy mask M: DeepSeek-AI 2025, DeepSeek-V3.2, arXiv 2512.02556"
    if spec.loss_type.clips and spec.conventions.dual_clip is not None:
        yield "Dual clip: Ye et al. 2019, arXiv 1912.09729"


def formula(case: Case) -> Iterator[str]:
    """The formula of a case, an equation a line, under the conventions that it is judged by.

    Names are those of tensors and options; i counts completions, t the unmasked tokens of one.
    """
    spec = case.spec
    yield from _loss(case)
    yield from _policy(spec)
    if spec.loss_type is LossType.VESPO:
        yield from _gamma(case)
    elif spec.loss_type is LossType.GMPO:
        yield from _geometric(case)
    if _needs_ratio(spec):
        yield from _ratio(case)
    if spec.beta:
        yield from _kl(spec)
    if spec.off_policy_mask_threshold is not None:
        sampled = "old_logps" if case.batch.sampling_logps is None else "sampling_logps"
        yield "M_it = 0 where A_it < 0 and"
        yield f"       1/n_i sum_t ({sampled}_it - logps_it) > off_policy_mask_threshold, else 1"
    yield from _counts(case)


def _loss(case: Case) -> Iterator[str]:
    spec = case.spec
    policy = "P_it"
    if case.batch.importance_ratio is not None and spec.loss_type is not LossType.VESPO:
        policy = "w_it P_it"
    if spec.off_policy_mask_threshold is not None:
        policy = f"M_it {policy}"
    aggregation = _AGGREGATIONS[spec.loss_type]
    if not spec.beta:
        yield f"L = {aggregation} {policy}"
    elif spec.conventions.kl_aggregation is KLAggregation.TOKEN_MEAN:
        yield f"L = {aggregation} {policy} + beta/N sum_i sum_t KL_it"
    else:
        yield f"L = {aggregation} ({policy} + beta KL_it)"


def _policy(spec: LossSpec) -> Iterator[str]:
    match spec.loss_type:
        case LossType.CISPO:
            two_sided = spec.conventions.cispo_clip is CispoClip.TWO_SIDED
            bounded = "clip(r_it, 1 - epsilon_low, epsilon_high)" if two_sided else "min(r_it, epsilon_high)"
            yield f"P_it = -sg({bounded}) A_it logps_it"
        case LossType.SAPO:
            yield "P_it = -4/tau_it sigmoid(tau_it (r_it - 1)) A_it"
            yield "tau_it = sapo_temperature_pos where A_it > 0, else sapo_temperature_neg"
        case LossType.VESPO:
            yield "P_it = -sg(exp(lambda) W_i^k exp(-lambda W_i)) A_it logps_it"
        case LossType.GMPO:
            yield "P_it = -exp(1/n_i sum_t d_it) A_it"
        case _:
            first = "r_it" if spec.delta is None else "min(r_it, delta)"
            clipped = f"min({first} A_it, clip(r_it, 1 - epsilon_low, 1 + epsilon_high) A_it)"
            yield f"P_it = -{clipped}"
            if spec.conventions.dual_clip is not None:
                yield f"P_it is at most -{spec.conventions.dual_clip:g} A_it where A_it < 0 (dual clip)"


def _gamma(case: Case) -> Iterator[str]:
    yield "(k, lambda) = (vespo_k_pos, vespo_lambda_pos) where A_it >= 0, else those of _neg"
    yield "W_i = exp(clip(sum_t v_it, log(1e-8), 20))"
    ratio = "" if case.batch.importance_ratio is None else " + clip(log(w_it), log(1e-8), 20)"
    yield f"v_it = clip(logps_it - old_logps_it, -20, 20){ratio}"
    if case.batch.old_logps is None:
        yield "old_logps_it = sg(logps_it)"


def _geometric(case: Case) -> Iterator[str]:
    log_ratio = _bounded(_log_ratio(case), case.spec.conventions.log_ratio_bounds)
    yield f"d_it = min({log_ratio}, epsilon_high) where A_it > 0,"
    yield f"       max({log_ratio}, -epsilon_low) where A_it < 0, else 0"


def _needs_ratio(spec: LossSpec) -> bool:
    corrected = bool(spec.beta) and spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED
    return corrected or spec.loss_type not in (LossType.VESPO, LossType.GMPO)


def _log_ratio(case: Case) -> str:
    # On-policy: the value is 0, the gradient that of logps.
    return "logps_it - sg(logps_it)" if case.batch.old_logps is None else "logps_it - old_logps_it"


def _ratio(case: Case) -> Iterator[str]:
    spec, log_ratio = case.spec, _log_ratio(case)
    if spec.importance_sampling_level is Level.TOKEN:
        yield f"r_it = exp({_bounded(log_ratio, spec.conventions.log_ratio_bounds)})"
        return
    mean = f"1/n_i sum_t ({log_ratio})"
    if spec.conventions.sequence_gradient is SequenceGradient.TOKEN:
        mean = f"logps_it - sg(logps_it) + sg({mean})"
    yield f"r_it = exp({_bounded(mean, spec.conventions.log_ratio_bounds)})"


def _bounded(text: str, bounds: tuple[float | None, float | None]) -> str:
    low, high = bounds
    if low is not None and high is not None:
        return f"clip({text}, {low:g}, {high:g})"
    if high is not None:
        return f"min({text}, {high:g})"
    return text if low is None else f"max({text}, {low:g})"


def _kl(spec: LossSpec) -> Iterator[str]:
    estimates = {KLEstimator.K1: "-x_it", KLEstimator.K2: "x_it^2 / 2"}
    estimate = estimates.get(spec.kl_estimator, "exp(x_it) - x_it - 1")
    bound, inner = spec.conventions.kl_bound, spec.conventions.kl_log_ratio_bound
    if bound is not None:
        estimate = f"clip({estimate}, {-bound:g}, {bound:g})"
    if spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED:
        estimate = f"r_it {estimate}" if bound is not None else f"r_it ({estimate})"
    yield f"KL_it = {estimate}"
    x = "ref_logps_it - logps_it"
    yield f"x_it = {_bounded(x, (None if inner is None else -inner, inner))}"


def _counts(case: Case) -> Iterator[str]:
    """What the letters of the aggregation count."""
    spec, split, batch = case.spec, case.split, case.batch
    aggregation = _AGGREGATIONS[spec.loss_type]
    if "B" in aggregation and 0 in batch.lengths:
        counted = "without" if spec.conventions.empty_rows is EmptyRows.NOT_COUNTED else "with"
        yield f"B counts completions, {counted} those that have no token"
    if spec.loss_type is LossType.BNPO and not split.is_whole:
        yield "L is the mean of this over the micro-batches, N the tokens of one"
    elif "/N" in f"{aggregation} {next(_loss(case))}" and not split.is_whole:
        average = spec.conventions.window_tokens is WindowTokens.GENERATION_AVERAGE and split.mode is Mode.TRAIN
        share = f"{split.accumulation_steps}/{split.steps_per_generation} of those of the generation batch"
        yield f"N = {share if average else 'tokens of the optimizer step'}"
    if spec.conventions.denominator_epsilon:
        yield f"{spec.conventions.denominator_epsilon:g} is added to every number of tokens"
