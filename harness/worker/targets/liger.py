"""Liger-Kernel: the loss inside its fused linear GRPO loss, in pure torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..importing import import_from, taken_from, versions_of
from ..probes import probe
from ..source import source_of
from ..standins import stand_in
from ..target import LEVELS, LOSS_TYPES, Support, Target, TensorCase, Unavailable, Unsupported

_LIBRARY = "liger_kernel"
_MODULE = "liger_kernel.chunked_loss.grpo_loss"
_STAND_INS = ("triton",)

_NEEDED = (
    "per_token_logps",
    "attention_mask",
    "advantages",
    "full_attention_mask",
    "ref_per_token_logps",
    "old_per_token_logps",
    "epsilon_low",
    "epsilon_high",
    "beta",
    "loss_type",
    "max_completion_length",
)
_OPTIONS = {"delta": "delta", "k3_bias_corrected": "use_bias_correction_kl", "importance_ratio": "vllm_is_ratio"}
_CONSTANTS = {
    "sapo": ("sapo_temperature_pos", "sapo_temperature_neg"),
    "vespo": ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
}
_REFUSALS = ("Unknown loss type", "Sequence-level importance sampling is not supported")


class Liger(Target):
    """Liger's `ppo_loss_fn`, called for each completion, as its fused loss does with its usual chunk size of 1.

    For `cispo`, the spec's `epsilon_high` is the absolute cap of the ratio, which is what Liger's is there too.
    There is no split: of a step, the loss can be told the tokens, but what makes its micro-batches one step is up
    to who calls it.
    """

    conventions: Mapping[str, Any] = {"empty_rows": "counted", "padding": ["finite"]}

    def __init__(self, function: Callable[..., Any], made: Sequence[str]) -> None:
        self.versions: Mapping[str, str] = versions_of(_LIBRARY, "torch")
        self.label = f"liger {self.versions[_LIBRARY]}"
        self._function = function
        self.source = source_of(function)
        self._parameters = frozenset(inspect.signature(function).parameters)
        lacking = [name for name in _NEEDED if name not in self._parameters]
        if lacking:
            what = f"ppo_loss_fn takes no {', '.join(lacking)}"
            raise Unavailable("broken", f"{self.label} has another interface: its {what}")
        options = ["beta", "old_logps"]
        options += [option for option, parameter in _OPTIONS.items() if parameter in self._parameters]
        self.supports = Support(
            loss_types=tuple(loss_type for loss_type in LOSS_TYPES if self._accepts(loss_type)),
            levels=LEVELS if "importance_sampling_level" in self._parameters else LEVELS[:1],
            options=tuple(options),
        )
        self.replaced = (
            "ppo_loss_fn is given the case's logps; the fused loss computes them from hidden states, in float32",
            "the loss is not compiled, as the fused loss has it by default",
            "for vespo, importance ratios are 1 at masked positions, as TRL makes those that it hands to Liger",
            *(f"{name} is a stand-in: only imports need it" for name in made),
        )

    def refusal(self, case: TensorCase) -> str | None:
        return super().refusal(case) or self._lacks(case)

    def _lacks(self, case: TensorCase) -> str | None:
        ratio = case.importance_ratio
        if case.spec.loss_type == "vespo" and ratio is not None and ratio.shape != case.logps.shape:
            return "Liger's vespo takes one ratio of a completion for the product over its tokens, not for each"
        return None

    def loss(self, case: TensorCase) -> Tensor:
        mask, ratio = case.mask.long(), case.importance_ratio
        if ratio is not None and case.spec.loss_type == "vespo":
            ratio = torch.where(case.mask, ratio, torch.ones_like(ratio))
        tensors = {
            "per_token_logps": case.logps,
            "attention_mask": mask,
            "advantages": case.advantages,
            "ref_per_token_logps": case.ref_logps,
            "old_per_token_logps": case.old_logps,
            "vllm_is_ratio": ratio,
        }
        present = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        options = self._options(case)
        losses = [
            self._call({name: tensor[row : row + 1] for name, tensor in present.items()}, mask, options)
            for row in range(mask.shape[0])
        ]
        return torch.stack(losses).sum()

    def _call(self, chunk: Mapping[str, Tensor], full_mask: Tensor, options: Mapping[str, Any]) -> Tensor:
        try:
            loss: Tensor = self._function(**chunk, full_attention_mask=full_mask, **options)[0]
        except ValueError as error:
            if str(error).startswith(_REFUSALS):
                raise Unsupported(f"{self.label} says: {error}") from error
            raise
        return loss

    def _options(self, case: TensorCase) -> dict[str, Any]:
        """The hyper-parameters of a case, those that this release names; it would take others and drop them."""
        spec = case.spec
        options = {
            "loss_type": spec.loss_type,
            "importance_sampling_level": spec.importance_sampling_level,
            "beta": spec.beta,
            "epsilon_low": spec.epsilon_low,
            "epsilon_high": spec.epsilon_high,
            "max_completion_length": spec.max_completion_length,
            "delta": spec.delta,
            "use_bias_correction_kl": spec.kl_estimator == "k3_bias_corrected",
            **{name: getattr(spec, name) for names in _CONSTANTS.values() for name in names},
        }
        return {name: value for name, value in options.items() if name in self._parameters}

    def _accepts(self, loss_type: str) -> bool:
        if not self._parameters.issuperset(_CONSTANTS.get(loss_type, ())):
            return False
        try:
            self.loss(probe(loss_type, "token", [[1]]))
        except Unsupported:
            return False
        return True


def open_target(_name: str, _options: Mapping[str, str]) -> Target:
    """The Liger-Kernel that is installed here."""
    made = stand_in(*_STAND_INS)
    (module,) = import_from(_LIBRARY, _MODULE)
    (fused,) = taken_from(_LIBRARY, module, "LigerFusedLinearGRPOFunction")
    return Liger(fused.ppo_loss_fn, made)
