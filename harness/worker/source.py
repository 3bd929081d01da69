"""Where a callable's code is written, for reports that point at it."""

from __future__ import annotations

import functools
import inspect
import os
from types import CodeType
from typing import Any, NamedTuple

import torch

_NO_SOURCE_OF_THEIRS = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")
_LONGEST_CHAIN = 32


class Source(NamedTuple):
    """The absolute path of a file, and the line in it that a definition begins with, its decorators included."""

    file: str
    line: int


def source_of(function: Any) -> Source | None:
    """Where a function, a method, a partial, a module or any object with `__call__` is defined.

    Wrappers that say what they wrap are looked through. None where that is not told: what is compiled, was typed
    in, or is torch's own.
    """
    try:
        code = _code(function)
        if code is None or not os.path.isfile(code.co_filename):
            return None
        file = os.path.abspath(code.co_filename)
    # Attributes of foreign objects may run anything, and where the code lies is no reason to fail.
    except Exception:
        return None
    # What stands for a compiled function in Python is torch's, and not what is judged.
    return None if file.startswith(_NO_SOURCE_OF_THEIRS) else Source(file, code.co_firstlineno)


def _code(found: Any) -> CodeType | None:
    """The code at the end of a chain of wrappers, or None where it ends in something else or goes on and on."""
    for _ in range(_LONGEST_CHAIN):
        inner = _inside(found)
        if inner is None:
            code = getattr(found, "__code__", None)
            return code if isinstance(code, CodeType) else None
        found = inner
    return None


def _inside(found: Any) -> Any:
    """What `found` hands its call on to, or None where it is the end."""
    if isinstance(found, functools.partial):
        return found.func
    if inspect.ismethod(found):
        return found.__func__
    # What torch.compile made of a module, and functools.wraps of a function.
    for name in ("_orig_mod", "__wrapped__"):
        inner = getattr(found, name, None)
        if inner is not None:
            return inner
    if isinstance(found, torch.nn.Module):
        return found.forward
    if inspect.isfunction(found) or inspect.isbuiltin(found) or inspect.isclass(found):
        return None
    call = inspect.getattr_static(type(found), "__call__", None)
    return call if inspect.isfunction(call) else None
