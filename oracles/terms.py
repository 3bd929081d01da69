"""The pieces that several losses share: ratios, the clipped surrogate, the KL term.

Sources: Schulman et al. 2017, arXiv 1707.06347 (clipped surrogate); Shao et al. 2024, arXiv 2402.03300 (k3
inside the token sum); Zheng et al. 2025, arXiv 2507.18071 (the length-normalised ratio of a completion).
"""

from __future__ import annotations

from cases.spec import Level
from oracles.completions import Completion, Formula, Parameters, Token
from oracles.scalar import Scalar, clip, exp, minimum, stored


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
    r"""$\min(r A, \mathrm{clip}(r, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A)$."""
    return minimum(ratio * advantage, clip(ratio, p.ratio_low, p.ratio_high) * advantage)


def k3(token: Token) -> Scalar:
    r"""$e^{\ell^{ref} - \ell} - (\ell^{ref} - \ell) - 1$, Schulman's estimator of the KL divergence.

    Raises `ValueError` when the batch has no reference log-probabilities.
    """
    if token.ref_logp is None:
        raise ValueError("ref_logps: got None, takes a tensor when beta is not 0")
    x = token.ref_logp - token.logp
    return stored(exp(x) - x - 1)


def with_kl(policy: Scalar, token: Token, p: Parameters) -> Scalar:
    r"""The policy term plus $\beta \, k3$, where the loss has a KL term."""
    return policy if p.beta is None else policy + p.beta * k3(token)


def clipped_token_losses(completion: Completion, formula: Formula) -> list[Scalar]:
    r"""$\beta \, k3_{it} - \min(r_{it} A_{it}, \mathrm{clip}(r_{it}) A_{it})$ for every token."""
    p = formula.parameters
    return [
        with_kl(-clipped_surrogate(ratio, token.advantage, p), token, p)
        for ratio, token in zip(ratios(completion, formula), completion, strict=True)
    ]
