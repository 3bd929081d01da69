"""A Python callable, `module:function`, or a trainer class, `module:Trainer`."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from ..source import source_of
from ..target import Target, Unavailable
from . import operator
from .by_name import ByName
from .signatures import parameters_of


def open_target(name: str, options: Mapping[str, str]) -> Target:
    """The callable of that name; option `loss_type` says which loss it is, or narrows it to one."""
    found = _find(name)
    if inspect.isclass(found):
        return _open_trainer(found, name, options)
    if not callable(found):
        raise Unavailable("unknown", f"{name} is of type {type(found).__name__}; a function is needed")
    if operator.is_operator(found):
        return operator.target_of(name, found, options)
    return ByName(name, found, parameters_of(name, found), options, source=source_of(found))


def _open_trainer(found: type, name: str, options: Mapping[str, str]) -> Target:
    if not hasattr(found, "compute_loss"):
        raise Unavailable("unknown", f"{name} is a class without compute_loss; a function or a trainer is needed")
    # Only now: it is for those who have TRL.
    trl = importlib.import_module(".trl", __package__)
    target: Target = trl.open_trainer(found, name, options)
    return target


def _hint(module_name: str, path: str) -> str:
    if module_name.endswith(".py"):
        return f"a module is named as it is imported: {module_name[:-3].strip('./').replace('/', '.')}:{path}"
    return "it is looked for in the current folder and among what is installed"


def _find(name: str) -> Any:
    module_name, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise Unavailable(
            "unknown",
            f"no module named {error.name!r} here",
            hint=_hint(module_name, path),
        ) from None
    for part in path.split("."):
        if not hasattr(found, part):
            close = difflib.get_close_matches(part, [name for name in dir(found) if name[0] != "_"], n=1)
            hint = f"did you mean {close[0]!r}?" if close else ""
            raise Unavailable("unknown", f"{module_name} has no {path}", hint)
        found = getattr(found, part)
    return found
