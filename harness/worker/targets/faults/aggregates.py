"""How token losses become the loss of one micro-batch, and those of a step one number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from ...target import Split, TensorCase

if TYPE_CHECKING:
    from .steps import Steps


@dataclass(frozen=True)
class Step:
    """What a micro-batch knows of the optimizer step that it is part of.

    `mask` is that of all rows of the step, on all ranks; `generation_mask` that of the whole generation batch.
    """

    split: Split
    mask: Tensor
    generation_mask: Tensor

    @property
    def micro_batches(self) -> int:
        """On a rank."""
        return 1 if self.split.mode == "eval" else self.split.accumulation_steps


def add(values: Tensor) -> Tensor:
    """The sum over the last dimension."""
    return values.sum(-1)


def length(mask: Tensor) -> Tensor:
    """The divisor of a mean over the last dimension: its tokens, at least 1."""
    return mask.sum(-1).clamp(min=1)


def rows(mask: Tensor) -> int:
    """The divisor of a mean over completions: B."""
    return int(mask.shape[0])


def share(loss: Tensor, step: Step) -> Tensor:
    """The part of a micro-batch's own mean in the mean over the step."""
    return loss / step.micro_batches


def window(step: Step) -> Tensor:
    """The mask whose tokens a mean over the step divides by."""
    return step.mask


def mean_of_ranks(losses: list[Tensor]) -> Tensor:
    """What averaging the gradients of all ranks comes to."""
    return sum(losses) / len(losses)


def by_loss_type(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    """Token losses (B, T) to one number, as the loss type says."""
    return {
        "grpo": mean_of_means,
        "sapo": mean_of_means,
        "bnpo": token_mean,
        "dr_grpo": constant_length,
        "luspo": mean_of_sums,
    }.get(case.spec.loss_type, step_mean)(losses, case, step, steps)


def mean_of_means(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    """The mean of each completion, then over completions."""
    means = steps.add(losses * case.mask) / steps.length(case.mask)
    return steps.share(steps.add(means) / steps.rows(case.mask), step)


def mean_of_sums(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    """The sum of each completion, then the mean over completions."""
    sums = steps.add(losses * case.mask)
    return steps.share(steps.add(sums) / steps.rows(case.mask), step)


def constant_length(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    """The sum of all tokens over B x max_completion_length."""
    total = steps.add((losses * case.mask).flatten())
    return steps.share(total / (steps.rows(case.mask) * case.spec.max_completion_length), step)


def token_mean(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    """The mean over all tokens of the micro-batch."""
    total = steps.add((losses * case.mask).flatten())
    return steps.share(total / steps.length(case.mask.flatten()), step)


def step_mean(losses: Tensor, case: TensorCase, step: Step, steps: Steps) -> Tensor:
    """The micro-batch's part of the mean over all tokens of the step; ranks are averaged afterwards."""
    total = steps.add((losses * case.mask).flatten())
    return total / steps.length(steps.window(step).flatten()) * step.split.ranks
