r"""CISPO: REINFORCE weighted by a capped, detached ratio; every token of the optimizer step weighs the same.

$$\mathcal L = \frac{1}{\sum_i n_i} \sum_i \sum_t
    \Big[ \beta \, k3_{it} - \mathrm{sg}\big(\min(r_{it}, \epsilon_{high})\big) A_{it} \, \ell_{it} \Big]$$

Source: MiniMax-M1 2025, arXiv 2506.13585, equations 4 and 5, in the one-sided form with an absolute cap of
Khatri et al. 2025 (ScaleRL), arXiv 2510.13786; `epsilon_high` is that cap, not 1 plus it.
"""

from __future__ import annotations

from oracles.completions import Completion, Formula
from oracles.scalar import Scalar, minimum, stop_gradient
from oracles.terms import ratios, with_kl


def loss(formula: Formula) -> Scalar:
    """The loss of a step; 0 where no completion has a token."""
    step = [token_loss for completion in formula.non_empty for token_loss in _token_losses(completion, formula)]
    return formula.total(step) / max(formula.token_count, 1)


def _token_losses(completion: Completion, formula: Formula) -> list[Scalar]:
    p = formula.parameters
    losses = []
    for ratio, token in zip(ratios(completion, formula), completion, strict=True):
        weight = stop_gradient(minimum(ratio, p.epsilon_high))
        losses.append(with_kl(-(weight * token.advantage * token.logp), token, p))
    return losses
