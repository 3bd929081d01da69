"""Faults in how token losses become one number."""

from __future__ import annotations

from torch import Tensor

from ...target import TensorCase
from .fault import TOKEN_MEANS, Fault
from .steps import Steps, mean_of_means, token_mean


def _by_longest(losses: Tensor, case: TensorCase, steps: Steps) -> Tensor:
    longest = case.mask.sum(-1).max().clamp(min=1)
    return steps.add((losses * case.mask).flatten()) / (steps.rows(case.mask) * longest)


def _length_plus(extra: float) -> Steps:
    return Steps(length=lambda mask: mask.sum(-1).clamp(min=1) + extra)


_WITH_LENGTHS = ("grpo", *TOKEN_MEANS)

FAULTS = (
    Fault(
        "grpo_as_bnpo",
        "every token weighs the same, where every completion should",
        Steps(aggregate=token_mean),
        loss_types=("grpo",),
    ),
    Fault(
        "bnpo_as_grpo",
        "every completion weighs the same, where every token should",
        Steps(aggregate=mean_of_means),
        loss_types=TOKEN_MEANS,
    ),
    Fault(
        "dr_total",
        "the sum is divided by the number of tokens, not by B x max_completion_length",
        Steps(aggregate=token_mean),
        loss_types=("dr_grpo",),
    ),
    Fault(
        "dr_maxlen",
        "the sum is divided by B x the longest completion, not by B x max_completion_length",
        Steps(aggregate=_by_longest),
        loss_types=("dr_grpo",),
    ),
    Fault(
        "mean_padded",
        "means divide by all positions, padding included",
        Steps(length=lambda mask: mask.sum(-1) * 0 + mask.shape[-1]),
        loss_types=_WITH_LENGTHS,
    ),
    Fault(
        "no_min1",
        "means over no tokens divide 0 by 0",
        Steps(length=lambda mask: mask.sum(-1)),
        loss_types=_WITH_LENGTHS,
    ),
    Fault(
        "skip_empty_rows",
        "completions without tokens are not counted in B",
        Steps(rows=lambda mask: max(1, int(mask.any(-1).sum()))),
        loss_types=("grpo", "dr_grpo"),
    ),
    Fault(
        "den_eps_1e-4",
        "means divide by the number of tokens plus 1e-4",
        _length_plus(1e-4),
        loss_types=_WITH_LENGTHS,
    ),
    Fault(
        "den_eps_1e-6",
        "means divide by the number of tokens plus 1e-6",
        _length_plus(1e-6),
        loss_types=_WITH_LENGTHS,
    ),
)
