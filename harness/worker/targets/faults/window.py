"""Faults in how a step is put together from micro-batches and ranks."""

from __future__ import annotations

from torch import Tensor

from ...target import TensorCase
from .aggregates import Step, share, step_mean
from .fault import SHARED, STEP_MEANS, Fault
from .steps import Steps

_SPLIT = ("split",)


def _divided_twice(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    return steps.share(step_mean(losses, case, step, steps), step)


def _without_ranks(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    return step_mean(losses, case, step, steps) / step.split.ranks


def _in_eval_too(loss: Tensor, step: Step) -> Tensor:
    return loss / step.split.accumulation_steps


def _by_generation(loss: Tensor, step: Step) -> Tensor:
    return loss / step.split.steps_per_generation if step.split.mode == "train" else share(loss, step)


FAULTS = (
    Fault(
        "step_divided_twice",
        "losses that have the tokens of the step as divisor are divided by the accumulation steps, too",
        Steps(aggregate=_divided_twice),
        STEP_MEANS,
        needs=_SPLIT,
    ),
    Fault(
        "step_generation_tokens",
        "the divisor is the number of tokens of the whole generation batch, and nothing makes up for it",
        Steps(window=lambda step: step.generation_mask),
        STEP_MEANS,
        needs=_SPLIT,
    ),
    Fault(
        "step_without_ranks",
        "tokens are counted on all ranks, losses on one, and nothing makes up for it",
        Steps(aggregate=_without_ranks),
        STEP_MEANS,
        needs=_SPLIT,
    ),
    Fault(
        "share_no_div",
        "means over micro-batches are added and not divided by the accumulation steps",
        Steps(share=lambda loss, _step: loss),
        SHARED,
        needs=_SPLIT,
    ),
    Fault(
        "share_eval",
        "in eval, too, losses are divided by the accumulation steps",
        Steps(share=_in_eval_too),
        SHARED,
        needs=_SPLIT,
    ),
    Fault(
        "share_generation",
        "losses are divided by the steps of a generation batch, not by the accumulation steps",
        Steps(share=_by_generation),
        SHARED,
        needs=_SPLIT,
    ),
    Fault("ranks_summed", "losses of the ranks are added, not averaged", Steps(join=sum), needs=_SPLIT),
)
