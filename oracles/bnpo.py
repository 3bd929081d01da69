r"""BNPO as trainers name it: every token of the micro-batch weighs the same.

$$\mathcal L = \frac{1}{\sum_i n_i} \sum_i \sum_t
    \Big[ \beta \, k3_{it}
    - \min\big(r_{it} A_{it}, \mathrm{clip}(r_{it}, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_{it}\big) \Big]$$

Source: none; the name is TRL's `loss_type="bnpo"`, the mean over the tokens of the local batch. The BNPO
paper (Xiao et al. 2025, arXiv 2506.02864) changes the advantages instead.
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
    return formula.total(tokens) / max(formula.token_count, 1)
