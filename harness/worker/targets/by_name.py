"""A target that is one call with arguments by name: what it supports follows from the parameters it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from ..gradients import answer_in
from ..source import Source
from ..target import LEVELS, LOSS_TYPES, Answer, Support, Target, TensorCase, Unavailable, Unsupported
from .arguments import Arguments, Parameter

_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo", "gmpo")

# The options without which a loss cannot be expressed, whatever the batch.
_CONSTANTS: Mapping[str, tuple[str, ...]] = {
    "dr_grpo": ("max_completion_length",),
    "cispo": ("epsilon_high",),
    "sapo": ("sapo_temperature_pos", "sapo_temperature_neg"),
    "vespo": ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
}

# An option of a case, and the parameters by any of which it can be expressed.
_EXPRESSED = (
    ("old_logps", ("old_logps",)),
    ("token_advantages", ("advantages", "token_advantages")),
    ("delta", ("delta",)),
    ("k3_bias_corrected", ("kl_estimator", "use_bias_correction_kl")),
    ("k1", ("kl_estimator",)),
    ("k2", ("kl_estimator",)),
    ("importance_ratio", ("importance_ratio",)),
    ("off_policy_mask", ("off_policy_mask_threshold",)),
)

_BOOL = "mask is a bool tensor here, so take mask.long() or mask.float() in a small function around it"


class ByName(Target):
    """A callable that is given what it has parameters for.

    It supports what they can express; a case for which it raises `NotImplementedError` is unsupported.
    """

    conventions: Mapping[str, Any] = {"empty_rows": "counted", "padding": ["finite"]}
    versions: Mapping[str, str] = {}

    def __init__(
        self,
        label: str,
        call: Callable[..., Any],
        parameters: tuple[Parameter, ...],
        options: Mapping[str, str],
        has_autograd: bool = True,
        source: Source | None = None,
    ) -> None:
        """`options` may say in "loss_type" which loss it is, in "level" what a call without a parameter for that
        computes; `has_autograd` is that of `answer_in`.

        Raises `Unavailable` when a parameter cannot be mapped, or nothing says which loss it is.
        """
        self.label = label
        self._call = call
        self._has_autograd = has_autograd
        self.source = source
        self._arguments = Arguments(label, parameters)
        has = self._arguments.has
        self._candidates = _candidates(label, options.get("loss_type", ""), has("loss_type"))
        self._level = options.get("level") or LEVELS[0]
        taken = [option for option, ways in _EXPRESSED if any(map(has, ways))]
        if has("beta", "ref_logps"):
            taken.append("beta")
        self.supports = Support(
            loss_types=tuple(kind for kind in self._candidates if has(*_CONSTANTS.get(kind, ()))),
            levels=LEVELS if has("importance_sampling_level") else (self._level,),
            options=tuple(taken),
        )

    def refusal(self, case: TensorCase) -> str | None:
        spec = case.spec
        needed: dict[str, str] = {}
        if spec.loss_type in self._candidates:
            needed.update(dict.fromkeys(_CONSTANTS.get(spec.loss_type, ()), spec.loss_type))
            # On-policy the ratio is 1, where no clip acts.
            if spec.loss_type in _CLIPPED and case.old_logps is not None:
                if not self._arguments.has("epsilon"):
                    needed.update(dict.fromkeys(("epsilon_low", "epsilon_high"), f"off-policy {spec.loss_type}"))
                elif spec.epsilon_low != spec.epsilon_high:
                    bounds = f"{spec.epsilon_low:g} and {spec.epsilon_high:g}"
                    return f"{self.label} has one epsilon for both bounds, and the case has {bounds}"
        if spec.importance_sampling_level != self._level:
            needed["importance_sampling_level"] = f"the {spec.importance_sampling_level} level"
        if spec.beta != 0:
            needed.update(dict.fromkeys(("beta", "ref_logps"), f"beta {spec.beta:g}"))
        if case.old_logps is not None:
            needed["old_logps"] = "an off-policy case"
        if spec.off_policy_mask_threshold is not None and case.sampling_logps is not None:
            needed["sampling_logps"] = "the off-policy sequence mask"
        for parameter, what in needed.items():
            if not self._arguments.has(parameter):
                return f"{self.label} has no parameter {parameter}, which {what} needs"
        return super().refusal(case)

    def compile(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._call = wrap(self._call)

    def loss(self, case: TensorCase) -> Tensor:
        return self.answer(case).loss

    def answer(self, case: TensorCase) -> Answer:
        arguments = self._arguments.values(case)
        try:
            result = self._call(**arguments)
        except (RuntimeError, TypeError, AttributeError) as error:
            text = str(error)
            explanation = _explanation(text, arguments)
            if explanation:
                kind = RuntimeError if isinstance(error, RuntimeError) else type(error)
                raise kind(f"{explanation}: {text}") from error
            if isinstance(error, NotImplementedError):
                raise Unsupported(f"{self.label} says: {text}") from error
            raise
        return answer_in(result, case.logps, self._has_autograd)


def _candidates(label: str, loss_type: str, has_loss_type: bool) -> tuple[str, ...]:
    if loss_type and loss_type not in LOSS_TYPES:
        raise Unavailable("unknown", f"no loss_type {loss_type!r}; known here: {', '.join(LOSS_TYPES)}")
    if not loss_type and not has_loss_type:
        raise Unavailable(
            "unknown",
            f"{label} has no parameter loss_type, so it must be said which loss it is",
            hint=f"pass --loss-type, one of {', '.join(LOSS_TYPES)}",
        )
    return (loss_type,) if loss_type else LOSS_TYPES


def _explanation(text: str, arguments: Mapping[str, Any]) -> str:
    """What of the arguments an error may be about that a callable was not written for, or ""."""
    absent = [name for name, value in arguments.items() if value is None]
    if "NoneType" in text and absent:
        return f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} None in this case"
    return _BOOL if re.search(r"\bbool\b", text, re.IGNORECASE) else ""
