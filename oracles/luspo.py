r"""LUSPO: completions weigh by their length; the mean over completions of the sums over their tokens.

$$\mathcal L = \frac{1}{B} \sum_i \sum_t
    \Big[ \beta \, k3_{it}
    - \min\big(r_{it} A_{it}, \mathrm{clip}(r_{it}, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_{it}\big) \Big]$$

Source: arXiv 2602.05261, which has the ratio of the completion (sequence level) and no KL term: there the inner
sum is the length times one term.
"""

from __future__ import annotations

from oracles.completions import Formula
from oracles.scalar import Scalar
from oracles.terms import clipped_token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a step; 0 where no completion has a token."""
    sums = [formula.total(clipped_token_losses(completion, formula)) for completion in formula.non_empty]
    return formula.total(sums) / formula.rows
