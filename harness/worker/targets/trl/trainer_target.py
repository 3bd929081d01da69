"""A trainer of TRL's making as a target: its loss, asked with a case's log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

import torch
from torch import Tensor

from ...target import LOSS_TYPES, Spec, Split, Support, Target, TensorCase, Unsupported
from .calls import Call
from .features import LEVELS, OPTIONS, Kind

_VESPO = ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg")
_SAPO = ("sapo_temperature_pos", "sapo_temperature_neg")


class TrainerTarget(Target):
    """A trainer's loss, whose log-probabilities are the case's.

    One trainer serves all cases; the attributes that its loss reads are set for each. For `cispo`, the spec's
    `epsilon_high` is the absolute cap of the ratio, which is what TRL's `epsilon_high` is there too. A split is
    what the trainer does with it: a call for each micro-batch, added up on a rank, averaged over ranks.
    """

    conventions: Mapping[str, Any] = {
        "empty_rows": "counted",
        "window_tokens": "generation_average",
        "padding": ["finite"],
    }

    def __init__(self, label: str, versions: Mapping[str, str], trainer: Any, kind: Kind, call: Call) -> None:
        self.label = label
        self.versions = versions
        self.source = call.source
        self._trainer = trainer
        self._kind = kind
        self._call = call
        self._ranks = Ranks(trainer.accelerator)
        self._is_scaled_outside = _is_scaled_outside(trainer)
        trainer.top_entropy_quantile = 1.0
        # Before any case is put: that sets what is looked for here.
        options = [trait.gives for trait in OPTIONS if trait.is_in(trainer)]
        levels = [trait.gives for trait in LEVELS if trait.is_in(trainer)]
        loss_types = tuple(loss_type for loss_type in LOSS_TYPES if self._accepts(loss_type))
        if loss_types and self._tells_tokens_apart(loss_types[0]):
            options.append("token_advantages")
        self.supports = Support(loss_types, ("token", *levels), options=(*options, "split"))
        self.replaced = tuple(self._replaced())

    def _replaced(self) -> list[str]:
        said = [
            *self._call.replaced,
            "the accelerator reports the ranks of the case's split, in one process",
            "attributes that the loss reads are set after construction, as the case says",
        ]
        if self._is_scaled_outside:
            said.append(
                "in training, the loss of a micro-batch is divided by the accumulation steps outside the loss, as "
                "the Trainer's training_step does for this trainer"
            )
        if self._kind.reads_reference:
            said.append("with beta 0, where a reference is read all the same, it is the policy itself")
        if "vespo" in self.supports.loss_types:
            said.append(
                "for vespo, importance ratios are 1 at masked positions, as the trainer's own pipeline makes them"
            )
        return said

    def refusal(self, case: TensorCase) -> str | None:
        ratio = case.importance_ratio
        if case.spec.loss_type == "vespo" and ratio is not None and ratio.shape != case.logps.shape:
            return "TRL's vespo takes importance ratios per token only: it refuses the sequence modes"
        return super().refusal(case)

    def compile(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._call.compile(wrap)

    def loss(self, case: TensorCase) -> Tensor:
        split = case.split
        self._configure(case)
        tokens = case.mask.sum()
        try:
            if split == Split():
                return self._call.loss(case, tokens)
            divisor = split.accumulation_steps if self._is_scaled_outside and split.mode == "train" else 1
            ranks = [
                sum((self._call.loss(case.rows(rows), tokens) / divisor).double() for rows in steps)
                for steps in split.judged(case.mask.shape[0])
            ]
            return sum(ranks) / len(ranks)
        except (ValueError, KeyError, NotImplementedError) as error:
            if not _is_refusal(error, case.spec):
                raise
            raise Unsupported(f"{self.label} says: {error}") from error
        finally:
            # They grow by a number a call, and are read only by a training loop's log.
            for metrics in self._trainer._metrics.values():
                metrics.clear()

    def _configure(self, case: TensorCase) -> None:
        trainer, arguments, spec, split = self._trainer, self._trainer.args, case.spec, case.split
        trainer.loss_type = spec.loss_type
        trainer.importance_sampling_level = spec.importance_sampling_level
        trainer.beta = spec.beta
        trainer.epsilon_low = spec.epsilon_low
        trainer.epsilon_high = spec.epsilon_high
        trainer.max_completion_length = spec.max_completion_length
        trainer.off_policy_mask_threshold = spec.off_policy_mask_threshold
        trainer.use_vllm = trainer.vllm_importance_sampling_correction = case.importance_ratio is not None
        # Where a loss reads the old log-probabilities only if a batch is used more than once.
        trainer.num_iterations = 1 if case.old_logps is None else 2
        arguments.delta = spec.delta
        arguments.use_bias_correction_kl = spec.kl_estimator == "k3_bias_corrected"
        for name in _SAPO + _VESPO:
            setattr(arguments, name, getattr(spec, name))
        trainer.current_gradient_accumulation_steps = split.accumulation_steps
        arguments.gradient_accumulation_steps = split.accumulation_steps
        arguments.steps_per_generation = split.steps_per_generation
        self._ranks.count = split.ranks
        trainer.model.train(split.mode == "train")
        trainer.control.should_evaluate = split.mode == "eval"

    def _accepts(self, loss_type: str) -> bool:
        if self._kind.loss_type is not None:
            return loss_type == self._kind.loss_type
        try:
            self.loss(_small(loss_type, torch.ones(2)))
        except Unsupported:
            return False
        # Not a word on the loss's name: it is taken, and fails, which a run will show.
        except Exception:
            return True
        return True

    def _tells_tokens_apart(self, loss_type: str) -> bool:
        """Whether advantages of shape (B, T) stay with their completion, instead of being broadcast along B."""
        advantages = torch.zeros(2, 3)
        advantages[0, 2] = 1.0
        case = _small(loss_type, advantages)
        try:
            (gradient,) = torch.autograd.grad(self.loss(case), case.logps)
        # Shapes that do not fit are the usual end of it.
        except Exception:
            return False
        return bool(gradient[0].any()) and not gradient[1].any()


class Ranks:
    """Makes an accelerator report `count` processes; it still runs in one."""

    def __init__(self, accelerator: Any) -> None:
        self.count = 1
        count = property(lambda _: self.count)
        accelerator.__class__ = type("Ranked", (type(accelerator),), {"num_processes": count})


def _is_scaled_outside(trainer: Any) -> bool:
    """Whether the Trainer's `training_step` divides this trainer's loss by the accumulation steps."""
    return trainer.compute_loss_func is None and not trainer.model_accepts_loss_kwargs


def _is_refusal(error: Exception, spec: Spec) -> bool:
    """Whether an error says that there is no such loss, or no such level."""
    text = str(error)
    of_loss = spec.loss_type in text and ("loss" in text.lower() or isinstance(error, KeyError))
    of_level = spec.importance_sampling_level in text and "importance" in text
    return isinstance(error, NotImplementedError) or of_loss or of_level


def _small(loss_type: str, advantages: Tensor) -> TensorCase:
    """On-policy, of two completions of three tokens, to see what a trainer takes."""
    return TensorCase(
        dtype=torch.float32,
        device=torch.device("cpu"),
        logps=torch.full((2, 3), -1.0, requires_grad=True),
        old_logps=None,
        ref_logps=None,
        advantages=advantages,
        mask=torch.ones((2, 3), dtype=torch.bool),
        spec=Spec(loss_type, "token", 0.0, 0.2, 0.2, max_completion_length=3),
        split=Split(),
    )
