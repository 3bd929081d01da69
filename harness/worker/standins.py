"""Stand-ins for third-party modules that a library imports and its loss never calls.

    made = stand_in("ray", "codetiming")

A module that is installed is left alone. What stands in takes any attribute and any call, so that decorators and
base classes of an import hold; its use in a loss would show in the numbers at once.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from abc import ABCMeta
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def stand_in(*names: str) -> tuple[str, ...]:
    """Have top-level modules that are not installed imported as empty ones; the names of those."""
    missing = tuple(name for name in names if name not in sys.modules and importlib.util.find_spec(name) is None)
    if missing:
        # Last, so that nothing that is there is hidden.
        sys.meta_path.append(_Finder(missing))
    return missing


def stand_in_for(name: str) -> None:
    """Have one module of a library imported as an empty one, whose own imports fail here."""
    sys.modules[name] = _StandIn(name)


def bare_package(name: str) -> None:
    """Have a package imported without running its `__init__`: its modules are found, it is empty itself.

    Raises `ModuleNotFoundError` where it is not installed.
    """
    parent, _, last = name.rpartition(".")
    places = sys.modules[parent].__path__ if parent else sys.path
    folders = [os.path.join(place, last) for place in places if os.path.isdir(os.path.join(place, last))]
    if not folders:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = ModuleType(name)
    package.__path__ = folders[:1]
    package.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    sys.modules[name] = package


class _Open(ABCMeta):
    """Of a class with every attribute; an abstract class may be a base beside it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Anything(metaclass=_Open):
    """Takes every attribute, call, decoration and subclassing."""

    def __init__(self, *_arguments: object, **_options: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything

    def __call__(self, *arguments: Any, **_options: object) -> Any:
        # A decorator gives back what it decorates.
        return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else _Anything()


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything() if name[0].islower() else _Anything


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> Any:
        if fullname.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass
