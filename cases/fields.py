"""Fields of frozen values: checked and brought to their type when a value is made.

Each function sets one field of an instance, or raises a `ValueError` that names the field, what it got and what it
takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeVar

E = TypeVar("E", bound=StrEnum)


def member(kind: type[E], name: str, value: object) -> E:
    """The member of an enumeration that a value names."""
    if isinstance(value, kind):
        return value
    try:
        return kind(str(value))
    except ValueError:
        raise ValueError(f"{name}: got {value!r}, takes one of {', '.join(kind)}") from None


def set_member(instance: object, name: str, kind: type[StrEnum]) -> None:
    """Make a field a member of an enumeration."""
    object.__setattr__(instance, name, member(kind, name, getattr(instance, name)))


def set_members(instance: object, name: str, kind: type[StrEnum]) -> None:
    """Make a field a tuple of members of an enumeration."""
    value = getattr(instance, name)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name}: got {value!r}, takes a list of {', '.join(kind)}")
    object.__setattr__(instance, name, tuple(member(kind, name, one) for one in value))


def number(name: str, value: object, admits: Callable[[float], bool], takes: str) -> float:
    """A finite number in a range."""
    try:
        read = math.nan if isinstance(value, bool | str) else float(value)  # type: ignore[arg-type]  # any may raise
    except (TypeError, ValueError, OverflowError):
        read = math.nan
    if not math.isfinite(read) or not admits(read):
        raise ValueError(f"{name}: got {value!r:.40}, takes {takes}")
    return read


def set_number(instance: object, name: str, admits: Callable[[float], bool], takes: str) -> None:
    """Make a field a finite number in a range."""
    object.__setattr__(instance, name, number(name, getattr(instance, name), admits, takes))


def set_optional_number(instance: object, name: str, admits: Callable[[float], bool], takes: str) -> None:
    """Make a field a finite number in a range, or leave it None."""
    if getattr(instance, name) is not None:
        set_number(instance, name, admits, f"{takes}, or None")
