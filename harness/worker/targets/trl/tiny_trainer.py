"""A trainer around a model of a few numbers, built without network and without files that stay."""

from __future__ import annotations

import inspect
import tempfile
from dataclasses import fields
from typing import Any

from ...target import Unavailable

_WORDS = ("<pad>", "<eos>", "<unk>", "a", "b", "c")


def build(name: str, trainer_class: Any, config_class: Any) -> Any:
    """A trainer of that class, configured by that one.

    Raises `Unavailable` when its constructor requires what TRL's trainers do not require.
    """
    from datasets import Dataset

    _check_constructor(name, trainer_class)
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
            model=_model(),
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            args=config_class(**{name: value for name, value in settings.items() if name in known}),
            train_dataset=Dataset.from_dict({"prompt": ["a", "b"]}),
            processing_class=_tokenizer(),
        )


_GIVEN = ("model", "reward_funcs", "args", "train_dataset", "processing_class")


def _check_constructor(name: str, trainer_class: Any) -> None:
    parameters = inspect.signature(trainer_class).parameters.values()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    required = [
        parameter.name
        for parameter in parameters
        if parameter.kind in by_name and parameter.default is parameter.empty and parameter.name not in _GIVEN
    ]
    if required:
        raise Unavailable(
            "unknown",
            f"{name} cannot be made: its constructor also requires {', '.join(required)}",
            hint=f"a trainer class is made with {', '.join(_GIVEN)} alone: give the rest a default",
        )


def _model() -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(_WORDS),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            num_key_value_heads=1,
        )
    )


def _tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {word: index for index, word in enumerate(_WORDS)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="<unk>")),
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
    )
