"""The pieces that several losses share: ratios, the clipped surrogate, the KL term, off-policy corrections.

Sources: Schulman et al. 2017, arXiv 1707.06347 (clipped surrogate); Shao et al. 2024, arXiv 2402.03300 (k3
inside the token sum); Zheng et al. 2025, arXiv 2507.18071 (the length-normalised ratio of a completion);
INTELLECT-2 2025, arXiv 2505.07291 (two-sided clip); DeepSeek-AI 2025, arXiv 2512.02556 (bias-corrected KL and
off-policy sequence mask).
"""

from __future__ import annotations

from collections.abc import Sequence

from cases.spec import KLEstimator, Level
from oracles.completions import Completion, Formula, Parameters, Token
from oracles.operations import clip, exp, minimum, stop_gradient, stored
from oracles.scalar import Scalar


def ratios(completion: Completion, formula: Formula) -> list[Scalar]:
    r"""The importance ratio of every token.

    Token level: $r_{it} = \exp(\ell_{it} - \ell^{old}_{it})$. Sequence level: every token has
    $s_i = \exp\big(\frac{1}{n_i} \sum_t (\ell_{it} - \ell^{old}_{it})\big)$.
    """
    log_ratios = [token.logp - token.old_logp for token in completion]
    if formula.parameters.spec.importance_sampling_level is Level.TOKEN:
        return [exp(log_ratio) for log_ratio in log_ratios]
    return [exp(formula.total(log_ratios) / len(completion))] * len(completion)


def clipped_surrogate(ratio: Scalar, advantage: Scalar, p: Parameters) -> Scalar:
    r"""$\min\big(\min(r, \delta) A, \mathrm{clip}(r, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A\big)$.

    Without `delta`, the first ratio has no bound.
    """
    first = ratio if p.delta is None else minimum(ratio, p.delta)
    return minimum(first * advantage, clip(ratio, p.ratio_low, p.ratio_high) * advantage)


def k3(token: Token) -> Scalar:
    r"""$e^{\ell^{ref} - \ell} - (\ell^{ref} - \ell) - 1$, Schulman's estimator of the KL divergence.

    Raises `ValueError` when the batch has no reference log-probabilities.
    """
    if token.ref_logp is None:
        raise ValueError("ref_logps: got None, takes a tensor when beta is not 0")
    x = token.ref_logp - token.logp
    return stored(exp(x) - x - 1)


def kl_term(token: Token, ratio: Scalar, p: Parameters) -> Scalar:
    r"""$k3_{it}$; bias-corrected, $r_{it} \, k3_{it}$, with the gradient through both."""
    estimate = k3(token)
    return estimate * ratio if p.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED else estimate


def keeps(completion: Completion, formula: Formula) -> list[bool]:
    r"""The off-policy sequence mask: whether each token keeps its policy term.

    A token with $A_{it} < 0$ loses it where $\frac{1}{n_i} \sum_t (\ell^{samp}_{it} - \ell_{it})$ exceeds the
    threshold; $\ell^{old}$ stands in for $\ell^{samp}$ where there is none.
    """
    p = formula.parameters
    threshold = p.spec.off_policy_mask_threshold
    if threshold is None or all(token.advantage.mid >= 0 for token in completion):
        return [True] * len(completion)
    evidence = [_sampled(token) - stop_gradient(token.logp) for token in completion]
    drifted = formula.jumps.exceeds(formula.total(evidence) / len(completion), p.number(threshold))
    return [token.advantage.mid >= 0 or not drifted for token in completion]


def _sampled(token: Token) -> Scalar:
    return token.old_logp if token.sampling_logp is None else token.sampling_logp


def token_losses(
    completion: Completion,
    policy: Sequence[Scalar],
    ratio: Sequence[Scalar],
    formula: Formula,
    weighs_ratio: bool = True,
) -> list[Scalar]:
    r"""$M_{it} \, \rho_{it} \, L_{it} + \beta \, \mathrm{KL}_{it}$ for every token of a completion.

    The off-policy mask $M$ and the importance ratio $\rho$ are factors of the policy term $L$ alone; with
    `weighs_ratio` False the ratio is no factor, because $L$ has it already.
    """
    p = formula.parameters
    losses = []
    for token, term, r, kept in zip(completion, policy, ratio, keeps(completion, formula), strict=True):
        rho = token.importance_ratio if weighs_ratio else None
        weighted = term if rho is None else term * rho
        kept_term = weighted if kept else p.number(0.0)
        losses.append(kept_term if p.beta is None else kept_term + p.beta * kl_term(token, r, p))
    return losses


def clipped_token_losses(completion: Completion, formula: Formula) -> list[Scalar]:
    r"""`token_losses` of $L_{it} = -\min(r_{it} A_{it}, \mathrm{clip}(r_{it}) A_{it})$."""
    ratio = ratios(completion, formula)
    policy = [
        -clipped_surrogate(r, token.advantage, formula.parameters)
        for r, token in zip(ratio, completion, strict=True)
    ]
    return token_losses(completion, policy, ratio, formula)
