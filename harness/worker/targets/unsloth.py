"""Unsloth: the loss of its GRPO trainer, which is in unsloth-zoo."""

from __future__ import annotations

import contextlib
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..importing import import_from, taken_from, version_of
from ..probes import probe
from ..source import source_of
from ..standins import bare_package, stand_in
from ..steps import step_loss
from ..target import LOSS_TYPES, Support, Target, TensorCase, Unavailable, Unsupported

_LIBRARY = "unsloth_zoo"
_MODULE = "unsloth_zoo.rl_replacements"
_STAND_INS = ("datasets",)
# Read while it is imported: no compiler, and no accelerator needed.
_ENVIRONMENT = {"UNSLOTH_COMPILE_DISABLE": "1", "UNSLOTH_ALLOW_CPU": "1"}

_NEEDED = ("ref", "new", "old", "sampling_per_token_logps", "input_ids", "mask", "beta", "advantages")
_CORRECTED = "use_bias_correction_kl"
_SPLIT = ("num_items_in_batch", "current_gradient_accumulation_steps", "num_processes")
_PER_GENERATION = "steps_per_generation"

_KL_BOUND = 10.0
_KL_LOG_RATIO_BOUND = 20.0


class Unsloth(Target):
    """Unsloth's `grpo_compute_loss`.

    Training reaches it through `UnslothEfficientGRPO`, whose own backward takes no notice of the gradient that
    comes in; that is not judged here. For `cispo`, the spec's `epsilon_high` is the absolute cap of the ratio,
    which is what Unsloth's is there too. A micro-batch is told of its step as its trainer tells it.
    """

    def __init__(self, module: ModuleType, made: Sequence[str]) -> None:
        self.versions = {name: version_of(name) for name in (_LIBRARY, "torch")}
        self.versions["from"] = os.path.dirname(module.__file__ or "")
        self.label = f"unsloth {self.versions[_LIBRARY]}"
        (self._function,) = taken_from(_LIBRARY, module, "grpo_compute_loss")
        self.source = source_of(self._function)
        self._reads = _reads(self._function, self.label)
        options = ["beta", "old_logps", "token_advantages"]
        if "delta" in self._reads:
            options.append("delta")
        if _CORRECTED in self._reads:
            options.append("k3_bias_corrected")
        if self._reads.issuperset(_SPLIT):
            options.append("split")
        self.supports = Support(
            loss_types=tuple(loss_type for loss_type in LOSS_TYPES if self._accepts(loss_type)),
            options=tuple(options),
        )
        window = {"window_tokens": "generation_average"} if _PER_GENERATION in self._reads else {}
        self.conventions = {"empty_rows": "counted", "padding": ["finite"], **window, **self._kl_bounds()}
        self.replaced = (
            "grpo_compute_loss is called as it is; in training UnslothEfficientGRPO calls it, compiled",
            "modules of unsloth_zoo are imported without the package's own start-up, which asks for unsloth",
            "losses of micro-batches are added up on a rank and averaged over ranks, in one process",
            *(f"{name} is {value}" for name, value in _ENVIRONMENT.items()),
            *(f"{name} is a stand-in: only imports need it" for name in made),
        )

    def refusal(self, case: TensorCase) -> str | None:
        return self._lacks(case) or super().refusal(case)

    def _lacks(self, case: TensorCase) -> str | None:
        split = case.split
        if case.spec.loss_type == "vespo":
            return "unsloth-zoo takes the weights of vespo from the TRL that it runs in"
        if case.spec.off_policy_mask_threshold is not None:
            return "unsloth-zoo takes the off-policy mask from the TRL that it runs in"
        if case.importance_ratio is not None:
            return "unsloth-zoo computes importance ratios from sampling_logps, and takes none"
        if split.mode == "eval":
            return "unsloth-zoo's loss is not told of evaluation: that is up to the trainer"
        if split.steps_per_generation != split.accumulation_steps and _PER_GENERATION not in self._reads:
            return "this unsloth-zoo is not told of generation batches of several steps"
        return None

    def loss(self, case: TensorCase) -> Tensor:
        spec, split, tokens = case.spec, case.split, case.mask.sum()
        options = {
            "loss_type": spec.loss_type,
            "importance_sampling_level": spec.importance_sampling_level,
            "beta": spec.beta,
            "epsilon_low": spec.epsilon_low,
            "epsilon_high": spec.epsilon_high,
            "delta": spec.delta,
            "max_completion_length": spec.max_completion_length,
            _CORRECTED: spec.kl_estimator == "k3_bias_corrected",
            "sapo_temperature_pos": spec.sapo_temperature_pos,
            "sapo_temperature_neg": spec.sapo_temperature_neg,
            "num_items_in_batch": tokens,
            "current_gradient_accumulation_steps": split.accumulation_steps,
            _PER_GENERATION: split.steps_per_generation,
            "num_processes": split.ranks,
        }
        return step_loss(case, lambda part: self._micro_batch(part, options))

    def _micro_batch(self, case: TensorCase, options: Mapping[str, Any]) -> Tensor:
        mask = case.mask.long()
        try:
            loss: Tensor = self._function(
                ref=case.ref_logps,
                new=case.logps,
                old=case.old_logps,
                sampling_per_token_logps=None,
                input_ids=torch.zeros_like(mask),
                mask=mask,
                advantages=case.advantages,
                **options,
            )[0]
        except ValueError as error:
            if str(error).startswith("Unknown loss type"):
                raise Unsupported(f"{self.label} says: {error}") from error
            raise
        return loss

    def _accepts(self, loss_type: str) -> bool:
        if loss_type == "vespo":
            return False
        try:
            self.loss(probe(loss_type, "token", [[1]]))
        except Unsupported:
            return False
        return True

    def _kl_bounds(self) -> dict[str, float]:
        """The bounds of this release's KL term, which its source gives a reason for; older releases have none."""
        bounds = {}
        if self._kl(4.0, 0.0) == _KL_BOUND:
            bounds["kl_bound"] = _KL_BOUND
        # Times a small ratio, where a release can: else the bound above would hide this one.
        log_ratio = -4.0 if _CORRECTED in self._reads else 0.0
        bounded = math.expm1(-_KL_LOG_RATIO_BOUND) + _KL_LOG_RATIO_BOUND
        if math.isclose(self._kl(-30.0, log_ratio), bounded * math.exp(log_ratio), rel_tol=1e-12):
            bounds["kl_log_ratio_bound"] = _KL_LOG_RATIO_BOUND
        return bounds

    def _kl(self, ref_log_ratio: float, log_ratio: float) -> float:
        """The KL term of one token, bias-corrected where this release can."""
        case = probe("grpo", "token", [[1]], advantage=0.0, log_ratio=log_ratio)
        spec = replace(case.spec, beta=1.0, kl_estimator="k3_bias_corrected")
        loss = self.loss(replace(case, ref_logps=case.logps.detach() + ref_log_ratio, spec=spec))
        return float(loss)


def _reads(function: Callable[..., Any], label: str) -> frozenset[str]:
    """The options that the loss takes notice of: they come as `**kwargs`, of which it reads some by name.

    Raises `Unavailable` where the loss does not have the parameters that are known here.
    """
    lacking = [name for name in _NEEDED if name not in inspect.signature(function).parameters]
    if lacking:
        what = f"grpo_compute_loss takes no {', '.join(lacking)}"
        raise Unavailable("broken", f"{label} has another interface: its {what}")
    return frozenset(name for name in inspect.unwrap(function).__code__.co_consts if isinstance(name, str))


def open_target(_name: str, _options: Mapping[str, str]) -> Target:
    """The unsloth-zoo that is installed here."""
    os.environ.update(_ENVIRONMENT)
    # Where it is not there, the import below says so in a sentence.
    with contextlib.suppress(ModuleNotFoundError):
        bare_package(_LIBRARY)
        bare_package(f"{_LIBRARY}.temporary_patches")
    made = stand_in(*_STAND_INS)
    try:
        (module,) = import_from(_LIBRARY, _MODULE)
    except NotImplementedError as error:
        # Older releases start on an accelerator only.
        raise Unavailable("broken", f"{_LIBRARY} {version_of(_LIBRARY)} does not start here: {error}") from None
    return Unsloth(module, made)
