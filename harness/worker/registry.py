"""Target names and the adapters they stand for."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Mapping

from . import entry_points
from .target import Target, Unavailable

# The name, and the module below `targets` that holds its adapter; imported when it is asked for, so that what one
# adapter lacks is no trouble of another.
ADAPTERS = {name: name for name in ("trl", "liger", "verl", "openrlhf", "unsloth")}
PREFIXES = {"fault:": "faults"}
PATTERNS = {
    "module:function": ("function", re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")),
    "./lib.so#ns::op": ("operator", re.compile(r"[^#]+#.*")),
}
"""Names of a user's own, which are looked for from the current folder."""


def open_target(name: str, options: Mapping[str, str]) -> Target:
    """The target of a name, ready to be asked.

    Raises `Unavailable` when there is none of that name, it is not installed, or it does not start.
    """
    module = ADAPTERS.get(name) or next(
        (adapter for prefix, adapter in PREFIXES.items() if name.startswith(prefix)), None
    )
    if module is None:
        module = next((adapter for adapter, pattern in PATTERNS.values() if pattern.fullmatch(name)), None)
    if module not in [adapter for adapter, _ in PATTERNS.values()]:
        # In a checkout the current folder would hide what is installed.
        sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]
    if module is None:
        return _shipped(name)
    adapter = importlib.import_module(f".targets.{module}", __package__)
    target: Target = adapter.open_target(name, options)
    return target


def _shipped(name: str) -> Target:
    """The target of that name that an installed package ships."""
    offers = entry_points.shipped()
    named = [offer for offer in offers if offer.name == name]
    if not named:
        known = sorted({*ADAPTERS, *(offer.name for offer in offers)})
        close = difflib.get_close_matches(name, known, n=1)
        patterns = (*(f"{prefix}NAME" for prefix in PREFIXES), *PATTERNS)
        raise Unavailable(
            "unknown",
            f"no target named {name!r}; known here: {', '.join((*known, *patterns))}",
            hint=f"did you mean {close[0]!r}?" if close else "",
        )
    from .targets.plugin import open_shipped

    return open_shipped(name, named)
