r"""SAPO: a soft gate, a sigmoid of the ratio, in place of the clip; completions weigh the same, as in GRPO.

$$\mathcal L = \frac{1}{B} \sum_i \frac{1}{n_i} \sum_t
    \Big[ \beta \, k3_{it} - \frac{4}{\tau_{it}} \, \sigma\big(\tau_{it} (r_{it} - 1)\big) A_{it} \Big],
    \qquad \tau_{it} = \tau_{pos} \text{ if } A_{it} > 0 \text{ else } \tau_{neg}$$

Source: Gao et al. 2025, arXiv 2511.20347. At $r = 1$ the gradient is that of GRPO, the value is $-2 A / \tau$.
"""

from __future__ import annotations

from collections.abc import Sequence

from oracles.completions import Completion, Formula, Parameters, Token
from oracles.operations import sigmoid
from oracles.ratios import ratios
from oracles.scalar import Scalar
from oracles.terms import token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a step; 0 where no completion has a token."""
    means = [
        formula.total(_losses(completion, formula)) / formula.divisor(len(completion))
        for completion in formula.non_empty
    ]
    return formula.total(means) / formula.rows


def policy_terms(completion: Completion, ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
    r"""$-\frac{4}{\tau_{it}} \sigma(\tau_{it} (r_{it} - 1)) A_{it}$ of every token."""
    return [-_gated(r, token, formula.parameters) for r, token in zip(ratio, completion, strict=True)]


def _losses(completion: Completion, formula: Formula) -> list[Scalar]:
    ratio = ratios(completion, formula)
    return token_losses(completion, policy_terms(completion, ratio, formula), ratio, formula)


def _gated(ratio: Scalar, token: Token, p: Parameters) -> Scalar:
    return gate(ratio, temperature(token.advantage.mid > 0, p)) * token.advantage


def temperature(positive: bool, p: Parameters) -> Scalar:
    r"""$\tau$, of advantages above 0 or of others."""
    return p.number(p.spec.sapo_temperature_pos if positive else p.spec.sapo_temperature_neg)


def gate(ratio: Scalar, tau: Scalar) -> Scalar:
    r"""$\frac{4}{\tau} \sigma(\tau (r - 1))$."""
    return sigmoid(tau * (ratio - 1)) * 4 / tau
