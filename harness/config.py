"""The configuration: which targets a run judges, how they are reached, and what is expected of them.

It is `lossgate.toml`, or `[tool.lossgate]` in `pyproject.toml`, with the same keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError
from harness.expectations import reading
from harness.expectations.entry import NOTHING_EXPECTED, Expectations
from harness.settings import TargetSettings
from harness.toml_place import Place

DEFAULT_FILE: Final = Path("lossgate.toml")
PYPROJECT: Final = "pyproject.toml"
SECTION: Final = ("tool", "lossgate")

_KEYS: Final = ("targets", "target", "expect")


@dataclass(frozen=True)
class Config:
    """What one file says; no file says nothing.

    `file` is the one that was read, or that would be; `targets` are those of a run that names none; `settings` are
    of the targets that have a table; `note` says which file was passed over, if one was.
    """

    file: Path = DEFAULT_FILE
    targets: tuple[str, ...] = ()
    settings: tuple[TargetSettings, ...] = ()
    expect: Expectations = NOTHING_EXPECTED
    note: str = ""

    @classmethod
    def load(cls, path: Path | None) -> Config:
        """Read a file; None reads what the current folder has: `lossgate.toml`, else `pyproject.toml`, if any.

        Raises `UsageError` naming the file, the line, the entry and the key when one cannot be read.
        """
        if path is None:
            return cls._found()
        text, data = _parsed(path)
        place = Place(path, text)
        if path.name == PYPROJECT:
            section = _section(data)
            if section is None:
                raise UsageError(f"{path}: has no [tool.lossgate]", "add the section, or name another file")
            data, place = section, place.at(*SECTION)
        return cls._read(data, place)

    @classmethod
    def _found(cls) -> Config:
        pyproject = Path(PYPROJECT)
        if DEFAULT_FILE.is_file():
            note = ""
            if pyproject.is_file() and _mentions(pyproject):
                note = f"{DEFAULT_FILE} is read; [tool.lossgate] in {pyproject} is not"
            text, data = _parsed(DEFAULT_FILE)
            return cls._read(data, Place(DEFAULT_FILE, text), note)
        if pyproject.is_file():
            text, data = _parsed(pyproject)
            section = _section(data)
            if section is not None:
                return cls._read(section, Place(pyproject, text, SECTION))
        return cls()

    @classmethod
    def _read(cls, data: Any, place: Place, note: str = "") -> Config:
        if not isinstance(data, dict):
            raise place.wrong(f"takes a table of {', '.join(_KEYS)}")
        if "known" in data:
            hint = "rename it; its keys are as before"
            raise place.at("known").wrong("[[known]] is now called [[expect]]", hint)
        place.check_keys(data, _KEYS)
        return cls(
            file=place.file,
            targets=_targets(data.get("targets", []), place.at("targets")),
            settings=tuple(_settings(data.get("target", {}), place.at("target"))),
            expect=reading.read(data.get("expect", []), place.at("expect")),
            note=note,
        )


def _parsed(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _section(data: dict[str, Any]) -> Any:
    """What is under [tool.lossgate]; None where there is nothing."""
    tool = data.get(SECTION[0])
    return tool.get(SECTION[1]) if isinstance(tool, dict) else None


def _mentions(pyproject: Path) -> bool:
    """Whether a file that is not read has content for us; one that cannot be read is somebody else's business."""
    try:
        return bool(_section(_parsed(pyproject)[1]))
    except UsageError:
        return False


def _targets(data: Any, place: Place) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(name, str) and name.strip() for name in data):
        raise place.wrong(f"targets: got {data!r}, takes a list of target names")
    return tuple(data)


def _settings(data: Any, place: Place) -> Sequence[TargetSettings]:
    if not isinstance(data, dict):
        raise place.wrong("target: takes tables that begin with [target.NAME]")
    return [
        TargetSettings.read(word, table, place.at(word, name=f"target {word!r}")) for word, table in data.items()
    ]
