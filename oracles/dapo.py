r"""DAPO: every token of the optimizer step weighs the same, over all micro-batches and ranks.

$$\mathcal L = \frac{1}{\sum_i n_i} \sum_i \sum_t
    \Big[ \beta \, k3_{it}
    - \min\big(r_{it} A_{it}, \mathrm{clip}(r_{it}, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_{it}\big) \Big]$$

Source: Yu et al. 2025, DAPO, arXiv 2503.14476; the paper has no KL term (beta = 0). The sums run over the
whole step, so that in one process without accumulation the value is that of `bnpo`.
"""

from __future__ import annotations

from oracles.completions import Formula
from oracles.scalar import Scalar
from oracles.terms import clipped_token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a step; 0 where no completion has a token."""
    step = [
        token_loss for completion in formula.non_empty for token_loss in clipped_token_losses(completion, formula)
    ]
    return formula.total(step) / formula.divisor(formula.window_tokens)
