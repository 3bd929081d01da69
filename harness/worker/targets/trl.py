"""TRL: a real `GRPOTrainer` and its public `compute_loss`."""

from __future__ import annotations

import importlib
import importlib.metadata
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ..target import LEVELS, LOSS_TYPES, Spec, Split, Support, Target, TensorCase, Unavailable, Unsupported

_LOGPS_METHODS = ("_get_per_token_logps_and_entropies", "_get_per_token_logps")

# What only some releases have: the option of a case, and the attribute by which a release shows that it has it.
_TRAINER_OPTIONS = {"off_policy_mask": "off_policy_mask_threshold", "importance_ratio": "use_vllm"}
_ARGUMENT_OPTIONS = {"delta": "delta", "k3_bias_corrected": "use_bias_correction_kl"}
_VESPO = ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg")
_SAPO = ("sapo_temperature_pos", "sapo_temperature_neg")

_LIBRARIES = ("trl", "transformers", "accelerate", "torch")
_PIP = f"{sys.executable} -m pip install"


class TRL(Target):
    """TRL's `GRPOTrainer.compute_loss`; its log-probability method returns the case's `logps`.

    One trainer serves all cases; the attributes that its loss reads are set for each. For `cispo`, the spec's
    `epsilon_high` is the absolute cap of the ratio, which is what TRL's `epsilon_high` is there too. A split is
    what the trainer does with it: a call for each micro-batch, added up on a rank, averaged over ranks.
    """

    conventions: Mapping[str, Any] = {
        "empty_rows": "counted",
        "window_tokens": "generation_average",
        "padding": ["finite"],
    }

    def __init__(self, trainer: Any, versions: Mapping[str, str]) -> None:
        self.label = f"trl {versions['trl']}"
        self.versions = versions
        self._trainer = trainer
        self._logps: Tensor | None = None
        method = next(name for name in _LOGPS_METHODS if hasattr(trainer, name))
        self._with_entropies = method == _LOGPS_METHODS[0]
        setattr(trainer, method, self._scores)
        self._ranks = Ranks(trainer.accelerator)
        has_levels = hasattr(trainer, "importance_sampling_level")
        trainer.top_entropy_quantile = 1.0
        options = ["beta", "old_logps", "token_advantages", "split"]
        options += [option for option, name in _TRAINER_OPTIONS.items() if hasattr(trainer, name)]
        options += [option for option, name in _ARGUMENT_OPTIONS.items() if hasattr(trainer.args, name)]
        self.supports = Support(
            loss_types=tuple(loss_type for loss_type in LOSS_TYPES if self._accepts(loss_type)),
            levels=LEVELS if has_levels else LEVELS[:1],
            options=tuple(options),
        )
        self.replaced = (
            f"GRPOTrainer.{method} returns the case's logps, with entropies of 0",
            "the accelerator reports the ranks of the case's split, in one process",
            "attributes that the loss reads are set after construction, as the case says",
            "for vespo, importance ratios are 1 at masked positions, as the trainer's own pipeline makes them",
        )

    def refusal(self, case: TensorCase) -> str | None:
        ratio = case.importance_ratio
        if case.spec.loss_type == "vespo" and ratio is not None and ratio.shape != case.logps.shape:
            return "TRL's vespo takes importance ratios per token only: it refuses the sequence modes"
        return super().refusal(case)

    def loss(self, case: TensorCase) -> Tensor:
        self._configure(case)
        tokens = case.mask.sum()
        try:
            if case.split == Split():
                return self._call(case, tokens)
            ranks = [
                sum(self._call(case.rows(rows), tokens).double() for rows in steps)
                for steps in case.split.judged(case.mask.shape[0])
            ]
            return sum(ranks) / len(ranks)
        except ValueError as error:
            if str(error).startswith(("Unknown loss type", "Unknown importance sampling level")):
                raise Unsupported(f"{self.label} says: {error}") from error
            raise
        finally:
            self._logps = None
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
        arguments.delta = spec.delta
        arguments.use_bias_correction_kl = spec.kl_estimator == "k3_bias_corrected"
        for name in _SAPO + _VESPO:
            setattr(arguments, name, getattr(spec, name))
        trainer.current_gradient_accumulation_steps = split.accumulation_steps
        arguments.steps_per_generation = split.steps_per_generation
        self._ranks.count = split.ranks
        trainer.model.train(split.mode == "train")

    def _call(self, case: TensorCase, tokens: Tensor) -> Tensor:
        self._logps = case.logps
        loss: Tensor = self._trainer.compute_loss(self._trainer.model, _inputs(case, tokens))
        return loss

    def _scores(self, _model: object, *_inputs: object, **options: object) -> Any:
        """In place of the log-probability method: what it returns, in the form that this call asks for."""
        logps = self._logps
        if not self._with_entropies:
            return logps
        entropies = torch.zeros_like(logps, requires_grad=False)
        return (logps, entropies, None) if "compute_aux_loss" in options else (logps, entropies)

    def _accepts(self, loss_type: str) -> bool:
        try:
            self.loss(_smallest(loss_type))
        except Unsupported:
            return False
        return True


class Ranks:
    """Makes an accelerator report `count` processes; it still runs in one."""

    def __init__(self, accelerator: Any) -> None:
        self.count = 1
        count = property(lambda _: self.count)
        accelerator.__class__ = type("Ranked", (type(accelerator),), {"num_processes": count})


def _inputs(case: TensorCase, tokens: Tensor) -> dict[str, Tensor]:
    """A micro-batch as TRL's own data collation would hand it to the loss; the prompt is one token.

    `tokens`: unmasked tokens of the whole generation batch, on all ranks.
    """
    rows, columns = case.mask.shape
    inputs = {
        "prompt_ids": torch.zeros((rows, 1), dtype=torch.long, device=case.device),
        "prompt_mask": torch.ones((rows, 1), dtype=torch.long, device=case.device),
        "completion_ids": torch.zeros((rows, columns), dtype=torch.long, device=case.device),
        "completion_mask": case.mask.long(),
        "advantages": case.advantages,
        "num_items_in_batch": tokens,
    }
    ratio = case.importance_ratio
    if ratio is not None and case.spec.loss_type == "vespo":
        ratio = torch.where(case.mask, ratio, torch.ones_like(ratio))
    optional = {
        "old_per_token_logps": case.old_logps,
        "ref_per_token_logps": case.ref_logps,
        "sampling_per_token_logps": case.sampling_logps,
        "importance_sampling_ratio": ratio,
    }
    inputs.update({name: tensor for name, tensor in optional.items() if tensor is not None})
    return inputs


def _smallest(loss_type: str) -> TensorCase:
    """One token, to see whether this release knows a loss."""
    return TensorCase(
        dtype=torch.float32,
        device=torch.device("cpu"),
        logps=torch.full((1, 1), -1.0, requires_grad=True),
        old_logps=None,
        ref_logps=None,
        advantages=torch.ones(1),
        mask=torch.ones((1, 1), dtype=torch.bool),
        spec=Spec(loss_type, "token", 0.0, 0.2, 0.2, max_completion_length=1),
        split=Split(),
    )


def open_target(name: str, _options: Mapping[str, str]) -> Target:
    """The TRL that is installed here."""
    _silence()
    try:
        from trl import GRPOConfig, GRPOTrainer
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise Unavailable("not_installed", f"{name} is not installed", f"{_PIP} {name}") from None
    except ImportError as error:
        if "GRPOTrainer" not in str(error) and "GRPOConfig" not in str(error):
            raise
        raise Unavailable("broken", f"the {name} here has no GRPOTrainer", f"{_PIP} -U {name}") from error
    versions = {library: _version(library) for library in _LIBRARIES}
    versions["from"] = os.path.dirname(importlib.import_module(name).__file__ or "")
    trainer = _build(GRPOTrainer, GRPOConfig)
    if not hasattr(trainer, "loss_type") or not any(hasattr(trainer, method) for method in _LOGPS_METHODS):
        raise Unavailable(
            "broken",
            f"trl {versions['trl']} has a GRPOTrainer of another kind: no loss_type, or no method for logps",
        )
    return TRL(trainer, versions)


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        # A checkout on the path, never installed.
        return "unknown"


def _build(trainer_class: Any, config_class: Any) -> Any:
    """A trainer around a model of a few numbers, built without network and without files that stay."""
    from datasets import Dataset
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    words = {word: index for index, word in enumerate(("<pad>", "<eos>", "<unk>", "a", "b", "c"))}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="<unk>")),
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
    )
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(words),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
        )
    )
    known = {field.name for field in fields(config_class)}
    with tempfile.TemporaryDirectory(prefix="lossgate-") as directory:
        settings = {
            "output_dir": directory,
            "per_device_train_batch_size": 2,
            "num_generations": 2,
            "gradient_accumulation_steps": 1,
            # Else the constructor loads a reference model from disk; the loss reads trainer.beta.
            "beta": 0.0,
            "bf16": False,
            "gradient_checkpointing": False,
            "use_cpu": True,
            "report_to": [],
            "disable_tqdm": True,
        }
        return trainer_class(
            model=model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config_class(**{name: value for name, value in settings.items() if name in known}),
            train_dataset=Dataset.from_dict({"prompt": ["a", "b"]}),
            processing_class=tokenizer,
        )


def _silence() -> None:
    """Keep the libraries' notices out of the output that is shown with an error."""
    warnings.simplefilter("ignore")
    for library in ("trl", "transformers", "datasets", "accelerate"):
        logging.getLogger(library).setLevel(logging.ERROR)
