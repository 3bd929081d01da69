"""The KL term: its estimators per token, and how the terms of tokens become one number.

Sources: Schulman, Approximating KL Divergence, http://joschu.net/blog/kl-approx.html (k1, k2, k3); Shao et al.
2024, arXiv 2402.03300 (k3 inside the token sum); DeepSeek-AI 2025, arXiv 2512.02556 (bias-corrected k3). The clips
and the mean of its own are conventions of libraries.
"""

from __future__ import annotations

from cases.conventions import KLAggregation, KLBounded
from cases.spec import KLEstimator
from oracles.completions import Formula, Parameters, Token
from oracles.operations import clip, exp, stored
from oracles.ratios import ratios
from oracles.scalar import Scalar


def kl_term(token: Token, ratio: Scalar, p: Parameters) -> Scalar:
    r"""$\mathrm{KL}_{it}$ by the estimator of the spec, with $x = \ell^{ref}_{it} - \ell_{it}$.

    * k1: $-x$; k2: $x^2 / 2$; k3: $e^x - x - 1$.
    * bias-corrected k3: $r_{it} (e^x - x - 1)$, with the gradient through both factors.

    Raises `ValueError` when the batch has no reference log-probabilities.
    """
    if token.ref_logp is None:
        raise ValueError("ref_logps: got None, takes a tensor when beta is not 0")
    x = clip(token.ref_logp - token.logp, *_bounds(p.conventions.kl_log_ratio_bound, p))
    match p.spec.kl_estimator:
        case KLEstimator.K1:
            estimate = -x
        case KLEstimator.K2:
            estimate = x * x / 2
        case KLEstimator.K3 | KLEstimator.K3_BIAS_CORRECTED:
            estimate = exp(x) - x - 1
    estimate = stored(estimate)
    if p.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED:
        estimate = estimate * ratio
    return clip(estimate, *_bounds(p.conventions.kl_bound, p))


def _bounds(bound: float | None, p: Parameters) -> tuple[Scalar, Scalar] | tuple[None, None]:
    """-bound and bound, where there is one and it acts on the estimator of the spec."""
    polynomial = p.spec.kl_estimator in (KLEstimator.K1, KLEstimator.K2)
    acts = not polynomial or p.conventions.kl_bounded is KLBounded.EVERY
    return p.around_zero(bound if acts else None)


def separate_kl(formula: Formula) -> Scalar | None:
    r"""$\frac{\beta}{\sum_i n_i} \sum_i \sum_t \mathrm{KL}_{it}$, where KL terms are averaged by themselves."""
    p = formula.parameters
    if p.beta is None or p.conventions.kl_aggregation is KLAggregation.WITH_POLICY:
        return None
    terms = [
        kl_term(token, ratio, p)
        for completion in formula.non_empty
        for token, ratio in zip(completion, ratios(completion, formula), strict=True)
    ]
    return p.beta * formula.total(terms) / formula.divisor(formula.step_tokens)
