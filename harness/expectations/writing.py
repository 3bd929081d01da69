"""Generated entries written into a configuration file; every other byte of it stays as it is."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.expectations.entry import CELL_KEYS, Expect, Span
from harness.expectations.generating import is_ours
from harness.toml_place import statement


def rewritten(text: str, entries: Sequence[Expect], wanted: Sequence[Expect], section: tuple[str, ...]) -> str:
    """The text of a file with `wanted` in place of those of its `entries` that are ours.

    `section` is where the keys of the configuration are: () in `lossgate.toml`. An entry that is wanted as it is
    keeps its text, with the comments in it.

    Raises `ValueError` where the file has its entries in a form that none can be added to.
    """
    ours = sorted((entry for entry in entries if is_ours(entry)), key=lambda entry: entry.number)
    if list(map(_bare, ours)) == list(map(_bare, wanted)):
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.split("\n")
    texts: dict[Expect, str] = {}
    for entry in reversed(ours):
        first, last = _extent(text, (*section, "expect", entry.number - 1))
        texts[_bare(entry)] = "\n".join(lines[first - 1 : last]).rstrip("\r")
        while first > 1 and not lines[first - 2].strip():
            first -= 1
        del lines[first - 1 : last]
    rest = "\n".join(lines).rstrip("\r\n")
    blocks = [texts.get(_bare(entry)) or end.join(_lines(entry, section)) for entry in wanted]
    new = f"{end}{end}".join(part for part in (rest, *blocks) if part) + end
    _check(text, new, section, len(entries) - len(ours) + len(wanted))
    return new


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all. Raises `UsageError` when it cannot be written."""
    path = path.resolve()
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(text.encode())
        if path.exists():
            draft.chmod(path.stat().st_mode)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _bare(entry: Expect) -> Expect:
    """An entry without where it stands."""
    return replace(entry, number=0, line=0)


def _extent(text: str, keys: tuple[str | int, ...]) -> tuple[int, int]:
    """First and last line of an entry: from its header to the end of the last of its keys."""
    entry: Any = tomllib.loads(text)
    for key in keys:
        entry = entry[key]
    return statement(text, keys)[0], max(statement(text, (*keys, key))[1] for key in entry)


def _check(before: str, after: str, section: tuple[str, ...], count: int) -> None:
    """Raises `ValueError` where anything but the entries changed, or they are not as many as they should be."""
    old, _ = _without_entries(before, section)
    new, number = _without_entries(after, section)
    if old != new or number != count:
        raise ValueError("the file would change elsewhere")


def _without_entries(text: str, section: tuple[str, ...]) -> tuple[Any, int]:
    """What a file says but for its entries, and how many these are. An empty section is as none."""
    data: Any = tomllib.loads(text)
    tables = [data]
    for key in section:
        tables.append(tables[-1].get(key, {}))
    entries = tables[-1].pop("expect", [])
    for key, table in zip(reversed(section), reversed(tables[:-1]), strict=True):
        if not table.get(key):
            table.pop(key, None)
    return data, len(entries)


def _lines(entry: Expect, section: tuple[str, ...]) -> Iterator[str]:
    yield f"[[{'.'.join((*section, 'expect'))}]]"
    yield f"target = {_text(entry.target)}"
    if entry.version:
        yield f"version = {_text(entry.version)}"
    for key in CELL_KEYS:
        values = [_number(value) if key == "beta" else _text(value) for value in getattr(entry, key)]
        yield f"{key} = {values[0] if len(values) == 1 else '[' + ', '.join(values) + ']'}"
    yield f"signature = {_text(entry.signature)}"
    if entry.spans:
        yield f"range = {_range(entry.spans)}"
    yield f"reason = {_text(entry.reason)}"
    for key in ("link", "witness"):
        if getattr(entry, key):
            yield f"{key} = {_text(getattr(entry, key))}"
    if entry.expires is not None:
        yield f"expires = {entry.expires.isoformat()}"
    yield "generated = true"


def _range(spans: Sequence[Span]) -> str:
    pairs = [f"[{_number(span.low)}, {_number(span.high)}]" for span in spans]
    if not spans[0].dtype:
        return pairs[0]
    return "{ " + ", ".join(f"{span.dtype} = {pair}" for span, pair in zip(spans, pairs, strict=True)) + " }"


def _number(value: float) -> str:
    """A number as TOML writes it, powers of ten as such."""
    if math.isinf(value):
        return "inf"
    if value >= 1000 and value == float(f"{value:.0e}"):
        significand, _, exponent = f"{value:.0e}".partition("e+")
        return f"{significand}e{int(exponent)}"
    return f"{value:.0f}" if value == int(value) else repr(value)


def _text(value: str) -> str:
    """A text as TOML writes it: as JSON does, but that TOML has no bare DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
