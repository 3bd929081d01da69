"""A library under test: its modules imported, or one sentence on why they cannot be, and its versions."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import sys
from types import ModuleType
from typing import Any

from .target import Unavailable


def import_from(library: str, *modules: str) -> list[ModuleType]:
    """Modules of a library, in the order they are named.

    Raises `Unavailable`: "not_installed" where there is no such library, "broken" where it lacks one of the
    modules, or an import of its own is missing or fails.
    """
    return [_imported(library, module) for module in modules]


def _imported(library: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == library:
            raise Unavailable("not_installed", f"{library} is not installed", _install(library)) from None
        what = f"{library} {version_of(library)}"
        if missing.startswith(f"{library}."):
            raise Unavailable("broken", f"{what} has another interface: it has no {missing}") from error
        raise Unavailable(
            "broken", f"{what} needs {missing}, which is not installed", _install(missing)
        ) from error
    except ImportError as error:
        raise Unavailable("broken", f"{library} {version_of(library)} cannot be imported: {error}") from error


def taken_from(library: str, module: ModuleType, *names: str) -> list[Any]:
    """What a module calls by these names.

    Raises `Unavailable` ("broken") where it lacks one.
    """
    for name in names:
        if not hasattr(module, name):
            place = f"{module.__name__}.{name}"
            raise Unavailable(
                "broken", f"{library} {version_of(library)} has another interface: it has no {place}"
            )
    return [getattr(module, name) for name in names]


def version_of(library: str) -> str:
    """The version of a distribution, or "unknown" for a checkout on the path that was never installed."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def versions_of(library: str, *companions: str) -> dict[str, str]:
    """The versions of a library that is imported and of those it stands on, and the folder that it is from."""
    versions = {name: version_of(name) for name in (library, *companions)}
    versions["from"] = os.path.dirname(sys.modules[library].__file__ or "")
    return versions


def _install(library: str) -> str:
    return f"{sys.executable} -m pip install {library}"
