"""A place in a TOML file, so that a mistake in it is told by file, line and key."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from harness.errors import UsageError, did_you_mean

Key = str | int
"""A key of a table, or the position in a list, from 0."""


@dataclass(frozen=True)
class Place:
    """What stands under `keys` in a file whose `text` is valid TOML; `name` is what it is called in a sentence."""

    file: Path
    text: str
    keys: tuple[Key, ...] = ()
    name: str = ""

    def at(self, *keys: Key, name: str = "") -> Self:
        """A place below this one; with a `name`, sentences about it begin with that."""
        return replace(self, keys=(*self.keys, *keys), name=name or self.name)

    @property
    def lines(self) -> tuple[int, int]:
        """First and last line, from 1, of the statement that has it: a header, or a key and its value."""
        return statement(self.text, self.keys)

    def wrong(self, message: str, hint: str = "") -> UsageError:
        """The error that says what is wrong here."""
        parts = (f"{self.file}, line {self.lines[0]}", self.name, message)
        return UsageError(": ".join(part for part in parts if part), hint)

    def check_keys(self, data: Iterable[str], taken: Iterable[str]) -> None:
        """Raises `UsageError` for the first key of a table that is not among those taken."""
        taken = list(taken)
        for key in data:
            if key not in taken:
                raise self.at(key).wrong(f"no key {key!r}; takes {', '.join(taken)}", did_you_mean(key, taken))


def statement(text: str, keys: tuple[Key, ...]) -> tuple[int, int]:
    """First and last line of the statement of a valid TOML text after which `keys` are there; (1, 1) for none.

    A TOML text that ends between two statements is a TOML text: the statement is found by halving, without a
    grammar of our own. Only `\\n` ends a line, as in TOML.
    """
    lines = text.split("\n")
    before, through = 0, len(lines)
    while keys and through - before > 1:
        middle = (before + through) // 2
        down = (n for n in range(middle, before, -1) if _read(lines[:n]) is not None)
        up = (n for n in range(middle + 1, through) if _read(lines[:n]) is not None)
        cut = next(down, None) or next(up, None)
        if cut is None:
            break
        if _has(_read(lines[:cut]), keys):
            through = cut
        else:
            before = cut
    return (before + 1, through) if keys else (1, 1)


def _read(lines: list[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return None


def _has(data: Any, keys: tuple[Key, ...]) -> bool:
    for key in keys:
        there = range(len(data)) if isinstance(data, list) else data if isinstance(data, dict) else ()
        if key not in there:
            return False
        data = data[key]
    return True
