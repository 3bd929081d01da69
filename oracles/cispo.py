r"""CISPO: REINFORCE weighted by a capped, detached ratio; every token of the optimizer step weighs the same.

$$\mathcal L = \frac{1}{\sum_i n_i} \sum_i \sum_t
    \Big[ \beta \, k3_{it} - \mathrm{sg}\big(\min(r_{it}, \epsilon_{high})\big) A_{it} \, \ell_{it} \Big]$$

Source: MiniMax-M1 2025, arXiv 2506.13585, equations 4 and 5, in the one-sided form with an absolute cap of
Khatri et al. 2025 (ScaleRL), arXiv 2510.13786; `epsilon_high` is that cap, not 1 plus it. A convention adds the
lower bound $1 - \epsilon_{low}$.
"""

from __future__ import annotations

from collections.abc import Sequence

from cases.conventions import CispoClip
from oracles.completions import Completion, Formula
from oracles.operations import clip, stop_gradient
from oracles.ratios import ratios
from oracles.scalar import Scalar
from oracles.terms import token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a step; 0 where no completion has a token."""
    step = [token_loss for completion in formula.non_empty for token_loss in _losses(completion, formula)]
    return formula.total(step) / formula.divisor(formula.window_tokens)


def policy_terms(completion: Completion, ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
    r"""$-\mathrm{sg}(\min(r_{it}, \epsilon_{high})) A_{it} \ell_{it}$ of every token."""
    p = formula.parameters
    low = p.ratio_low if p.conventions.cispo_clip is CispoClip.TWO_SIDED else None
    return [
        -(stop_gradient(clip(r, low, p.ratio_cap)) * token.advantage * token.logp)
        for r, token in zip(ratio, completion, strict=True)
    ]


def _losses(completion: Completion, formula: Formula) -> list[Scalar]:
    ratio = ratios(completion, formula)
    return token_losses(completion, policy_terms(completion, ratio, formula), ratio, formula)
