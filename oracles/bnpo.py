r"""BNPO as trainers name it: every token of the micro-batch weighs the same.

$$\mathcal L = \frac{1}{\sum_i n_i} \sum_i \sum_t
    \Big[ \beta \, k3_{it}
    - \min\big(r_{it} A_{it}, \mathrm{clip}(r_{it}, 1 - \epsilon_{low}, 1 + \epsilon_{high}) A_{it}\big) \Big]$$

Source: none; the name is TRL's `loss_type="bnpo"`, the mean over the tokens of the local micro-batch. The BNPO
paper (Xiao et al. 2025, arXiv 2506.02864) changes the advantages instead.
"""

from __future__ import annotations

from oracles.completions import Formula
from oracles.scalar import Scalar
from oracles.terms import clipped_token_losses


def loss(formula: Formula) -> Scalar:
    """The loss of a step: the mean over its micro-batches of their token means; 0 where there is no token."""
    means = [
        formula.total(
            [
                token_loss
                for completion in part.non_empty
                for token_loss in clipped_token_losses(completion, formula)
            ]
        )
        / formula.divisor(max(part.token_count, 1))
        for part in formula.micro_batches
    ]
    return formula.total(means) / formula.pieces
