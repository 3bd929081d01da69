r"""Dr. GRPO: every token weighs the same, whatever the length of its completion; the divisor is a constant.

$$\mathcal L = \frac{1}{B \, L_{max}} \sum_i \sum_t
    \Big[ \beta \, k3_{it}
    - \min\big(r_{it} A_{it}, \mathrm{clip}(r_{it}, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_{it}\big) \Big]$$

Source: Liu et al. 2025, arXiv 2503.20783. The constant $L_{max}$ is in the authors' code, not in the printed
objective; the paper has no KL term (beta = 0).
"""

from __future__ import annotations

from oracles.completions import Formula
from oracles.scalar import Scalar
from oracles.terms import clipped_token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a batch; 0 where no completion has a token."""
    tokens = [
        token_loss for completion in formula.non_empty for token_loss in clipped_token_losses(completion, formula)
    ]
    return formula.total(tokens) / formula.rows.times(formula.parameters.spec.max_completion_length)
