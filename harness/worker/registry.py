"""Target names and the adapters they stand for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping

from .target import Target, Unavailable
from .targets import faults, function, trl

Opener = Callable[[str, Mapping[str, str]], Target]

OPENERS: dict[str, Opener] = {
    "trl": trl.open_target,
}

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def open_target(name: str, options: Mapping[str, str]) -> Target:
    """The target of a name, ready to be asked.

    Raises `Unavailable` when there is none of that name, it is not installed, or it does not start.
    """
    if name in OPENERS:
        return OPENERS[name](name, options)
    if name.startswith(faults.PREFIX):
        return faults.open_target(name, options)
    if _CALLABLE.fullmatch(name):
        return function.open_target(name, options)
    close = difflib.get_close_matches(name, OPENERS, n=1)
    known = ", ".join((*sorted(OPENERS), f"{faults.PREFIX}NAME", "module:function"))
    raise Unavailable(
        "unknown",
        f"no target named {name!r}; known here: {known}",
        hint=f"did you mean {close[0]!r}?" if close else "",
    )
