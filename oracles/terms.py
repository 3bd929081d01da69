"""The pieces that several losses share: the clipped surrogate, off-policy corrections, the loss of a token.

Sources: Schulman et al. 2017, arXiv 1707.06347 (clipped surrogate); Ye et al. 2019, arXiv 1912.09729 (dual clip);
INTELLECT-2 2025, arXiv 2505.07291 (two-sided clip); DeepSeek-AI 2025, arXiv 2512.02556 (off-policy sequence mask).
"""

from __future__ import annotations

from collections.abc import Sequence

from cases.conventions import KLAggregation
from oracles.completions import Completion, Formula, Parameters, Token
from oracles.kl import kl_term
from oracles.operations import clip, minimum, stop_gradient
from oracles.ratios import ratios
from oracles.scalar import Scalar


def clipped_surrogate(ratio: Scalar, advantage: Scalar, p: Parameters) -> Scalar:
    r"""$\min\big(\min(r, \delta) A, \mathrm{clip}(r, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A\big)$.

    Without `delta`, the first ratio has no bound. A dual clip $c$ makes it at least $c A$ where $A < 0$.
    """
    first = ratio if p.delta is None else minimum(ratio, p.delta)
    surrogate = minimum(first * advantage, clip(ratio, p.ratio_low, p.ratio_high) * advantage)
    if p.dual_clip is None or advantage.mid >= 0:
        return surrogate
    return -minimum(-surrogate, -(p.dual_clip * advantage))


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
    `weighs_ratio` False the ratio is no factor, because $L$ has it already. There is no KL term where a convention
    averages it by itself.
    """
    p = formula.parameters
    beta = p.beta if p.conventions.kl_aggregation is KLAggregation.WITH_POLICY else None
    losses = []
    for token, term, r, kept in zip(completion, policy, ratio, keeps(completion, formula), strict=True):
        rho = token.importance_ratio if weighs_ratio else None
        weighted = term if rho is None else term * rho
        kept_term = weighted if kept else p.number(0.0)
        losses.append(kept_term if beta is None else kept_term + beta * kl_term(token, r, p))
    return losses


def clipped_token_losses(completion: Completion, formula: Formula) -> list[Scalar]:
    r"""`token_losses` of $L_{it} = -\min(r_{it} A_{it}, \mathrm{clip}(r_{it}) A_{it})$."""
    ratio = ratios(completion, formula)
    policy = [
        -clipped_surrogate(r, token.advantage, formula.parameters)
        for r, token in zip(ratio, completion, strict=True)
    ]
    return token_losses(completion, policy, ratio, formula)
