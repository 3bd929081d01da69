"""Faults in how token losses become one number."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .aggregates import Step, constant_length, length, mean_of_means, step_mean, token_mean
from .fault import HALVES, ROW_MEANS, STEP_MEANS, TOKEN_MEANS, Fault
from .steps import Steps


def _by_longest(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    longest = int(case.mask.sum(-1).max().clamp(min=1))
    spec = replace(case.spec, max_completion_length=longest)
    return constant_length(losses, replace(case, spec=spec), step, steps)


def _padding_too(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    return steps.share((losses * case.mask.sum(-1, keepdim=True)).mean(), step)


def _masked_too(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    whole = replace(case, mask=torch.ones_like(case.mask))
    if case.spec.loss_type in STEP_MEANS:
        return step_mean(losses, whole, step, steps)
    tokens = steps.length(case.mask.flatten())
    return token_mean(losses, whole, step, replace(steps, length=lambda _mask: tokens))


def _length_plus(extra: float) -> Steps:
    return Steps(length=lambda mask: mask.sum(-1).clamp(min=1) + extra)


_WITH_LENGTHS = (*ROW_MEANS, *TOKEN_MEANS)

FAULTS = (
    Fault(
        "grpo_as_bnpo",
        "every token weighs the same, where every completion should",
        Steps(aggregate=token_mean),
        loss_types=ROW_MEANS,
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
        "length_twice",
        "means are divided by the number of tokens a second time",
        Steps(length=lambda mask: length(mask) ** 2),
        loss_types=_WITH_LENGTHS,
    ),
    Fault(
        "masked_too",
        "token losses at masked positions are added, too; the divisor is the number of tokens",
        Steps(aggregate=_masked_too),
        loss_types=TOKEN_MEANS,
    ),
    Fault(
        "dr_without_rows",
        "the sum is divided by max_completion_length, not by B x max_completion_length",
        Steps(rows=lambda _mask: 1),
        loss_types=("dr_grpo",),
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
        loss_types=(*ROW_MEANS, "dr_grpo", "luspo"),
    ),
    Fault(
        "den_eps_1e-4",
        "means divide by the number of tokens plus 1e-4",
        _length_plus(1e-4),
        loss_types=_WITH_LENGTHS,
        drowned=HALVES,
    ),
    Fault(
        "den_eps_1e-6",
        "means divide by the number of tokens plus 1e-6",
        _length_plus(1e-6),
        loss_types=_WITH_LENGTHS,
        drowned=HALVES,
    ),
    Fault(
        "luspo_padding",
        "token losses, padding included, are multiplied by the length of their completion and averaged over B x T",
        Steps(aggregate=_padding_too),
        loss_types=("luspo",),
    ),
    Fault(
        "luspo_as_grpo",
        "the sum of a completion is divided by its length",
        Steps(aggregate=mean_of_means),
        loss_types=("luspo",),
    ),
    Fault(
        "bnpo_as_dapo",
        "the divisor is the number of tokens of the step, not of the micro-batch",
        Steps(aggregate=step_mean),
        loss_types=("bnpo",),
        needs=("split",),
    ),
    Fault(
        "dapo_as_bnpo",
        "the divisor is the number of tokens of the micro-batch, not of the step",
        Steps(aggregate=token_mean),
        loss_types=STEP_MEANS,
        needs=("split",),
    ),
)
