"""An operator of a compiled library, `./lib.so#ns::op`, mapped by the types and names of its schema."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from ..target import Target, Unavailable
from .by_name import ByName
from .signatures import schema_parameters

_AUTOGRAD = ("Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd")


def open_target(name: str, options: Mapping[str, str]) -> Target:
    """The operator of that name; option `loss_type` says which loss it is, or narrows it to one."""
    library, _, path = name.partition("#")
    namespace, _, operator = path.partition("::")
    operator, _, overload = operator.partition(".")
    if not (library and namespace.isidentifier() and operator.isidentifier()):
        raise Unavailable("unknown", f"{name} names no operator", hint="an operator is named ./lib.so#ns::op")
    registered = _load(library)
    packet = getattr(getattr(torch.ops, namespace), operator, None)
    if not isinstance(packet, OpOverloadPacket):
        there = [known for known in _known() if known.startswith(f"{namespace}::")] or registered
        close = difflib.get_close_matches(f"{namespace}::{operator}", there, n=1)
        raise Unavailable(
            "unknown",
            f"{library} has no operator {namespace}::{operator}; there are {', '.join(there) or 'none'}",
            hint=f"did you mean {close[0]!r}?" if close else "",
        )
    if not overload:
        return target_of(name, packet, options)
    if overload not in packet.overloads():
        raise Unavailable("unknown", f"{namespace}::{operator} has no {overload!r}, has {_overloads(packet)}")
    return target_of(name, getattr(packet, overload), options)


def is_operator(found: object) -> bool:
    """Whether an object of Python is an operator of torch."""
    return isinstance(found, (OpOverload, OpOverloadPacket))


def target_of(name: str, operator: Any, options: Mapping[str, str]) -> Target:
    """The target that an operator is; of several overloads it must be the default one."""
    if isinstance(operator, OpOverloadPacket):
        overloads = operator.overloads()
        only = overloads[0] if len(overloads) == 1 else "default"
        if only not in overloads:
            raise Unavailable("unknown", f"{name} has several overloads, {_overloads(operator)}: name one")
        operator = getattr(operator, only)
    schema = operator._schema
    qualified = f"{schema.name}.{schema.overload_name}".rstrip(".")
    has_autograd = any(torch._C._dispatch_has_kernel_for_dispatch_key(qualified, key) for key in _AUTOGRAD)
    return ByName(name, operator, tuple(schema_parameters(schema)), options, has_autograd)


def _overloads(packet: Any) -> str:
    return ", ".join(repr(overload) for overload in packet.overloads())


def _load(library: str) -> list[str]:
    """Load a library: the operators that it registers."""
    path = os.path.abspath(library)
    if not os.path.isfile(path):
        raise Unavailable("unknown", f"no file {library}", hint="it is looked for from the current folder")
    before = set(_known())
    try:
        torch.ops.load_library(path)
    except OSError as error:
        # The loader's own words, which newer releases of torch wrap in others.
        reason = " ".join(str(error.__cause__ or error).split())
        raise Unavailable(
            "broken",
            f"{library} cannot be loaded: {reason}",
            hint=f"build it with the torch of this interpreter, {torch.__version__}",
        ) from None
    return [name for name in _known() if name not in before]


def _known() -> list[str]:
    return sorted(torch._C._dispatch_get_all_op_names())
