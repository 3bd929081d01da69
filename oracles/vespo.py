r"""VESPO: REINFORCE weighted by a detached gamma-shaped function of the whole completion's ratio.

$$\mathcal L = \frac{1}{\sum_i n_i} \sum_i \sum_t
    \Big[ \beta \, k3_{it} - \mathrm{sg}\big(\phi_{it}\big) A_{it} \, \ell_{it} \Big],
    \qquad \phi = e^{\lambda} W_i^k e^{-\lambda W_i}$$

$$W_i = \exp \mathrm{clip}\Big(\sum_t \mathrm{clip}(\ell_{it} - \ell^{old}_{it}, -20, 20)
    + \sum_t \mathrm{clip}(\ln \rho_{it}, \ln 10^{-8}, 20), \; \ln 10^{-8}, \; 20\Big)$$

with $(k, \lambda)$ for $A_{it} \ge 0$ and another pair for $A_{it} < 0$; the importance ratio $\rho$ enters here
and nowhere else.

Source: arXiv 2602.10693, section 3.4 and appendix I; the clips of the logarithms are in the authors' code, not in
the paper. The ratio is always the completion's, so that both levels are the same loss (but for a bias-corrected KL
term).
"""

from __future__ import annotations

import math
from typing import Final

from oracles.completions import Completion, Formula, Parameters, Token
from oracles.operations import clip, exp, log, stop_gradient
from oracles.ratios import ratios
from oracles.scalar import Scalar
from oracles.terms import token_losses

_LOG_HIGH: Final = 20.0
_SMALLEST: Final = 1e-8


def loss(formula: Formula) -> Scalar:
    """The loss of a step; 0 where no completion has a token."""
    step = [token_loss for completion in formula.non_empty for token_loss in _losses(completion, formula)]
    return formula.total(step) / formula.divisor(formula.window_tokens)


def policy_terms(completion: Completion, formula: Formula) -> list[Scalar]:
    r"""$-\mathrm{sg}(\phi_{it}) A_{it} \ell_{it}$ of every token."""
    p = formula.parameters
    log_weight = _log_weight(completion, formula)
    return [-(stop_gradient(_gamma(log_weight, token, p)) * token.advantage * token.logp) for token in completion]


def _losses(completion: Completion, formula: Formula) -> list[Scalar]:
    policy = policy_terms(completion, formula)
    return token_losses(completion, policy, ratios(completion, formula), formula, weighs_ratio=False)


def _log_weight(completion: Completion, formula: Formula) -> Scalar:
    """The logarithm of W."""
    p = formula.parameters
    importances = [part for token in completion for part in importance_logs(token, p)]
    return bounded(formula.total([*clipped_log_ratios(completion, p), *importances]), p)


def clipped_log_ratios(completion: Completion, p: Parameters) -> list[Scalar]:
    """The log-ratio of every token, within -20 and 20."""
    bounds = p.number(-_LOG_HIGH), p.number(_LOG_HIGH)
    return [clip(token.logp - token.old_logp, *bounds) for token in completion]


def importance_logs(token: Token, p: Parameters) -> list[Scalar]:
    """The logarithm of a token's importance ratio inside its bounds; nothing where there is none."""
    if token.importance_ratio is None:
        return []
    lowest = p.number(math.log(_SMALLEST))
    below = token.importance_ratio.mid <= _SMALLEST
    return [lowest if below else clip(log(token.importance_ratio), lowest, p.number(_LOG_HIGH))]


def bounded(log_weight: Scalar, p: Parameters) -> Scalar:
    """A logarithm of W inside its bounds."""
    return clip(log_weight, p.number(math.log(_SMALLEST)), p.number(_LOG_HIGH))


def shape(positive: bool, p: Parameters) -> tuple[Scalar, Scalar]:
    """k and lambda, of advantages of at least 0 or of others."""
    spec = p.spec
    k = p.number(spec.vespo_k_pos if positive else spec.vespo_k_neg)
    return k, p.number(spec.vespo_lambda_pos if positive else spec.vespo_lambda_neg)


def gamma(log_weight: Scalar, k: Scalar, lam: Scalar) -> Scalar:
    r"""$\phi = e^{\lambda} W^k e^{-\lambda W}$, from the logarithm of W."""
    return exp(lam + k * log_weight - lam * exp(log_weight))


def _gamma(log_weight: Scalar, token: Token, p: Parameters) -> Scalar:
    return gamma(log_weight, *shape(token.advantage.mid >= 0, p))
