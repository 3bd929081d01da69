"""Which class configures a trainer class."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator
from typing import Any

from ...target import Unavailable


def config_class_of(name: str, trainer_class: Any) -> Any:
    """The class of a trainer's `args`.

    The trainer's own class is asked first, then its bases. Each tells by the annotation of `args` in its
    constructor, or else by its module, where one `...Config` is named as the trainer is, or derives from all
    others. Raises `Unavailable` where nothing tells.
    """
    from transformers import TrainingArguments

    def configures(kind: Any) -> bool:
        return inspect.isclass(kind) and issubclass(kind, TrainingArguments) and kind is not TrainingArguments

    for owner in trainer_class.__mro__:
        module = vars(sys.modules[owner.__module__])
        found = [kind for kind in _annotated(owner, module) if configures(kind)]
        if not found:
            named = {name: kind for name, kind in module.items() if name.endswith("Config") and configures(kind)}
            alike = named.get(owner.__name__.replace("Trainer", "Config"))
            found = list(named.values()) if alike is None else [alike]
        for kind in found:
            if all(issubclass(kind, other) for other in found):
                return kind
    raise Unavailable(
        "unknown",
        f"{name} does not say which class configures it",
        hint="annotate the parameter args of its constructor with its configuration class",
    )


def _annotated(owner: Any, module: dict[str, Any]) -> Iterator[Any]:
    """The classes in the annotation of `args` in a class's own constructor."""
    constructor = vars(owner).get("__init__")
    if not inspect.isfunction(constructor):
        return
    parameter = inspect.signature(constructor).parameters.get("args")
    # `*args` are no settings.
    if parameter is None or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return
    try:
        annotation = typing.get_type_hints(
            type("Holder", (), {"__annotations__": {"args": parameter.annotation}}), globalns=module
        )["args"]
    # An annotation may be any text, and is only a hint.
    except Exception:
        return
    yield from (annotation, *typing.get_args(annotation))
