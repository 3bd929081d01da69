"""`lossgate.toml`: which targets a run judges, how they are reached, and what is known of them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.errors import UsageError, did_you_mean
from harness.known import NONE_KNOWN, KnownDivergences
from harness.settings import TargetSettings

DEFAULT_FILE: Final = Path("lossgate.toml")

_KEYS: Final = ("targets", "target", "known")


@dataclass(frozen=True)
class Config:
    """What one file says; no file says nothing.

    `targets` are those of a run that names none; `settings` are of the targets that have a table.
    """

    targets: tuple[str, ...] = ()
    settings: tuple[TargetSettings, ...] = ()
    known: KnownDivergences = NONE_KNOWN

    @classmethod
    def load(cls, path: Path | None) -> Config:
        """Read a file; None reads `lossgate.toml` in the current folder, if there is one.

        Raises `UsageError` naming the file, the entry and the key when one cannot be read.
        """
        if path is None:
            if not DEFAULT_FILE.is_file():
                return cls()
            path = DEFAULT_FILE
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from error
        for key in data:
            if key not in _KEYS:
                raise UsageError(f"{path}: no key {key!r}; takes {', '.join(_KEYS)}", did_you_mean(key, _KEYS))
        return cls(
            _targets(data.get("targets", []), path),
            tuple(_settings(data.get("target", {}), path)),
            KnownDivergences.read(data.get("known", []), str(path)),
        )


def _targets(data: Any, path: Path) -> tuple[str, ...]:
    if not isinstance(data, list) or not all(isinstance(name, str) and name.strip() for name in data):
        raise UsageError(f"{path}: targets: got {data!r}, takes a list of target names")
    return tuple(data)


def _settings(data: Any, path: Path) -> Sequence[TargetSettings]:
    if not isinstance(data, dict):
        raise UsageError(f"{path}: target: takes tables that begin with [target.NAME]")
    return [TargetSettings.read(word, table, f"{path}: target {word!r}") for word, table in data.items()]
