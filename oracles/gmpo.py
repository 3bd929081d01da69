r"""GMPO: the geometric mean of a completion's ratios, each clipped on the side that its advantage calls for.

$$\mathcal L = \frac{1}{B} \sum_i \frac{1}{n_i} \sum_t \big[ \beta \, \mathrm{KL}_{it} - \rho_i A_{it} \big],
    \qquad \rho_i = \exp\Big(\frac{1}{n_i} \sum_t \tilde\delta_{it}\Big)$$

with $\delta_{it} = \ell_{it} - \ell^{old}_{it}$ and $\tilde\delta_{it} = \min(\delta_{it}, \epsilon_{high})$ where
$A_{it} > 0$, $\max(\delta_{it}, -\epsilon_{low})$ where $A_{it} < 0$, and 0 where $A_{it} = 0$: the bounds are of
the log-ratio.

Source: Zhao et al. 2025, arXiv 2507.20673, whose advantages are per completion and which has no KL term. Both
levels are the same loss (but for a bias-corrected KL term).
"""

from __future__ import annotations

from oracles.completions import Completion, Formula, Parameters, Token
from oracles.operations import clip, exp, minimum
from oracles.ratios import ratios
from oracles.scalar import Scalar
from oracles.terms import token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a batch; 0 where no completion has a token."""
    means = [
        formula.total(_losses(completion, formula)) / formula.divisor(len(completion))
        for completion in formula.non_empty
    ]
    return formula.total(means) / formula.rows


def policy_terms(completion: Completion, formula: Formula) -> list[Scalar]:
    r"""$-\rho_i A_{it}$ of every token."""
    clipped = [_clipped(token, formula.parameters) for token in completion]
    mean = exp(formula.total(clipped) / formula.divisor(len(completion)))
    return [-(mean * token.advantage) for token in completion]


def _losses(completion: Completion, formula: Formula) -> list[Scalar]:
    return token_losses(completion, policy_terms(completion, formula), ratios(completion, formula), formula)


def _clipped(token: Token, p: Parameters) -> Scalar:
    return one_sided(clip(token.logp - token.old_logp, *p.log_ratio_bounds), token, p)


def one_sided(log_ratio: Scalar, token: Token, p: Parameters) -> Scalar:
    """A log-ratio clipped on the side that the advantage calls for; 0 where the advantage is 0."""
    if token.advantage.mid > 0:
        return minimum(log_ratio, p.number(p.spec.epsilon_high))
    if token.advantage.mid < 0:
        return -minimum(-log_ratio, p.number(p.spec.epsilon_low))
    return p.number(0.0)
