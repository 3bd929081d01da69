r"""GRPO: every completion weighs the same, whatever its length.

$$\mathcal L = \frac{1}{B} \sum_i \frac{1}{n_i} \sum_t
    \Big[ \beta \, k3_{it}
    - \min\big(r_{it} A_{it}, \mathrm{clip}(r_{it}, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_{it}\big) \Big]$$

Source: Shao et al. 2024, DeepSeekMath, arXiv 2402.03300. At sequence level, with the ratio of the completion
in place of the token's, this is GSPO: Zheng et al. 2025, arXiv 2507.18071.
"""

from __future__ import annotations

from oracles.completions import Formula
from oracles.scalar import Scalar
from oracles.terms import clipped_token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a batch; 0 where no completion has a token."""
    means = [
        formula.total(clipped_token_losses(completion, formula)) / formula.divisor(len(completion))
        for completion in formula.non_empty
    ]
    return formula.total(means) / formula.rows
