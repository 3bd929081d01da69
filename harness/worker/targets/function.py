"""A Python callable, `module:function`, whose arguments are mapped by parameter name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from ..target import LEVELS, LOSS_TYPES, Spec, Support, Target, TensorCase, Unavailable, Unsupported

_TENSORS = ("logps", "old_logps", "ref_logps", "advantages", "mask", "sampling_logps", "importance_ratio")
_OPTIONS = tuple(field.name for field in fields(Spec) if field.name != "conventions")
OFFERED = _TENSORS + _OPTIONS

_CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
_REQUIRED = ("logps", "advantages", "mask")
_KIND_WORDS = {
    inspect.Parameter.VAR_KEYWORD: "takes **{}, which does not say what it supports",
    inspect.Parameter.VAR_POSITIONAL: "takes *{}, but arguments are passed by name",
    inspect.Parameter.POSITIONAL_ONLY: "takes {} by position only, but arguments are passed by name",
}


class Function(Target):
    """A callable that returns the loss, or a tuple or list that begins with it.

    It is given the parameters that it names, and supports what they can express; a case for which it raises
    `NotImplementedError` is unsupported.
    """

    conventions: Mapping[str, Any] = {"empty_rows": "counted", "padding": ["finite"]}

    def __init__(
        self, name: str, function: Callable[..., Any], parameters: tuple[str, ...], loss_type: str
    ) -> None:
        self.label = name
        self.versions: Mapping[str, str] = {}
        self._function = function
        self._parameters = parameters
        candidates = (loss_type,) if loss_type else LOSS_TYPES
        options = ["token_advantages"]
        if self._names("old_logps"):
            options.append("old_logps")
        if self._names("beta", "ref_logps"):
            options.append("beta")
        if self._names("delta"):
            options.append("delta")
        if self._names("kl_estimator"):
            options.append("k3_bias_corrected")
        if self._names("importance_ratio"):
            options.append("importance_ratio")
        if self._names("off_policy_mask_threshold"):
            options.append("off_policy_mask")
        self.supports = Support(
            loss_types=tuple(kind for kind in candidates if self._names(*_constants(kind))),
            levels=LEVELS if self._names("importance_sampling_level") else LEVELS[:1],
            options=tuple(options),
        )
        self._candidates = candidates

    def refusal(self, case: TensorCase) -> str | None:
        spec = case.spec
        needed: dict[str, str] = {}
        if spec.loss_type in self._candidates:
            needed.update(dict.fromkeys(_constants(spec.loss_type), spec.loss_type))
            if spec.loss_type in _CLIPPED and case.old_logps is not None:
                # On-policy the ratio is 1, where no clip acts.
                needed.update(dict.fromkeys(("epsilon_low", "epsilon_high"), f"off-policy {spec.loss_type}"))
        if spec.importance_sampling_level != LEVELS[0]:
            needed["importance_sampling_level"] = f"the {spec.importance_sampling_level} level"
        if spec.beta != 0:
            needed.update(dict.fromkeys(("beta", "ref_logps"), f"beta {spec.beta:g}"))
        if case.old_logps is not None:
            needed["old_logps"] = "an off-policy case"
        for parameter, what in needed.items():
            if not self._names(parameter):
                return f"{self.label} has no parameter {parameter}, which {what} needs"
        return super().refusal(case)

    def loss(self, case: TensorCase) -> Tensor:
        arguments = {name: getattr(case, name) for name in _TENSORS}
        arguments.update({name: getattr(case.spec, name) for name in _OPTIONS})
        try:
            result = self._function(**{name: arguments[name] for name in self._parameters})
        except NotImplementedError as error:
            raise Unsupported(f"{self.label} says: {error}") from error
        return result[0] if isinstance(result, (tuple, list)) and result else result

    def _names(self, *parameters: str) -> bool:
        return all(parameter in self._parameters for parameter in parameters)


def _constants(loss_type: str) -> tuple[str, ...]:
    """The options without which a loss cannot be expressed, whatever the batch."""
    return {
        "dr_grpo": ("max_completion_length",),
        "cispo": ("epsilon_high",),
        "sapo": ("sapo_temperature_pos", "sapo_temperature_neg"),
        "vespo": ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
    }.get(loss_type, ())


def open_target(name: str, options: Mapping[str, str]) -> Target:
    """The callable of that name; option `loss_type` says which loss it is, or narrows it to one."""
    function = _find(name)
    parameters = _parameters(name, function)
    loss_type = options.get("loss_type", "")
    if loss_type and loss_type not in LOSS_TYPES:
        raise Unavailable("unknown", f"no loss_type {loss_type!r}; known here: {', '.join(LOSS_TYPES)}")
    if not loss_type and "loss_type" not in parameters:
        raise Unavailable(
            "unknown",
            f"{name} has no parameter loss_type, so it must be said which loss it is",
            hint=f"pass --loss-type, one of {', '.join(LOSS_TYPES)}",
        )
    return Function(name, function, parameters, loss_type)


def _find(name: str) -> Callable[..., Any]:
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise Unavailable(
            "unknown",
            f"no module named {error.name!r} here",
            hint="it is looked for in the current folder and among what is installed",
        ) from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise Unavailable("unknown", f"{module_name} has no {path}")
        found = getattr(found, part)
    if inspect.isclass(found) or not callable(found):
        what = "a class" if inspect.isclass(found) else f"of type {type(found).__name__}"
        raise Unavailable("unknown", f"{name} is {what}; a function is needed")
    return found  # type: ignore[no-any-return] # callable, checked above


def _parameters(name: str, function: Callable[..., Any]) -> tuple[str, ...]:
    """The names that the callable can be given."""
    offered = f"offered are {', '.join(OFFERED)}"
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise Unavailable("unknown", f"{name} does not say what its parameters are ({error})") from None
    for parameter in signature.parameters.values():
        if parameter.kind in _KIND_WORDS:
            raise Unavailable("unknown", f"{name} {_KIND_WORDS[parameter.kind].format(parameter.name)}; {offered}")
        if parameter.name not in OFFERED and parameter.default is parameter.empty:
            raise Unavailable("unknown", f"{name} requires {parameter.name!r}, which is not offered; {offered}")
    parameters = tuple(parameter for parameter in signature.parameters if parameter in OFFERED)
    for required in _REQUIRED:
        if required not in parameters:
            raise Unavailable(
                "unknown", f"{name} has no parameter {required!r}, which every loss needs; {offered}"
            )
    return parameters
