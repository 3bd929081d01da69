"""Target names and the adapters they stand for."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections.abc import Mapping

from .target import Target, Unavailable

# The name, and the module below `targets` that holds its adapter; imported when it is asked for, so that what one
# adapter lacks is no trouble of another.
ADAPTERS = {name: name for name in ("trl", "liger", "verl", "openrlhf", "unsloth")}
PREFIXES = {"fault:": "faults"}

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def open_target(name: str, options: Mapping[str, str]) -> Target:
    """The target of a name, ready to be asked.

    Raises `Unavailable` when there is none of that name, it is not installed, or it does not start.
    """
    module = ADAPTERS.get(name) or next(
        (adapter for prefix, adapter in PREFIXES.items() if name.startswith(prefix)), None
    )
    if module is None and _CALLABLE.fullmatch(name):
        module = "function"
    if module is None:
        close = difflib.get_close_matches(name, ADAPTERS, n=1)
        known = ", ".join((*sorted(ADAPTERS), *(f"{prefix}NAME" for prefix in PREFIXES), "module:function"))
        raise Unavailable(
            "unknown",
            f"no target named {name!r}; known here: {known}",
            hint=f"did you mean {close[0]!r}?" if close else "",
        )
    if module != "function":
        # The current folder is for a user's own function; in a checkout it would hide what is installed.
        sys.path[:] = [entry for entry in sys.path if entry not in ("", os.getcwd())]
    adapter = importlib.import_module(f".targets.{module}", __package__)
    target: Target = adapter.open_target(name, options)
    return target
