"""Which parameters a callable has: by its Python signature, or by a schema that has types."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch

from ..target import Unavailable
from .arguments import Parameter


def parameters_of(label: str, function: Any) -> tuple[Parameter, ...]:
    """The parameters that can be given by name; `*args` and `**kwargs` promise nothing and are given nothing.

    Raises `Unavailable` when it does not say what they are, or takes one by position only.
    """
    fixed: set[str] = set()
    if isinstance(function, functools.partial):
        # What a partial fixes is no parameter any more, though its signature still lists it.
        fixed.update(function.keywords)
    # A compiled module is a wrapper around the one that has the signature.
    function = getattr(function, "_orig_mod", function)
    if isinstance(function, torch.nn.Module):
        function = function.forward
    schema = getattr(function, "schema", None)
    if isinstance(schema, torch._C.FunctionSchema):
        return tuple(parameter for parameter in schema_parameters(schema) if parameter.name != "self")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise Unavailable("unknown", f"{label} does not say what its parameters are ({error})") from None
    return tuple(_named(label, signature, fixed))


def _named(label: str, signature: inspect.Signature, fixed: set[str]) -> Iterator[Parameter]:
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise Unavailable(
                "unknown", f"{label} takes {parameter.name} by position only, but arguments are passed by name"
            )
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and parameter.name not in fixed:
            yield Parameter(parameter.name, required=parameter.default is parameter.empty)


def schema_parameters(schema: Any) -> Iterator[Parameter]:
    """The parameters of an operator, or of a scripted function, with their types."""
    for argument in schema.arguments:
        takes = str(argument.type)
        optional = takes.startswith("Optional[")
        yield Parameter(
            argument.name,
            required=not argument.has_default_value(),
            takes=takes[len("Optional[") : -1] if optional else takes,
            optional=optional,
        )
