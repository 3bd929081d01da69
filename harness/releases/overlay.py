"""What is laid over an interpreter so that a release is found in it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.outcome import TargetUnavailable
from harness.releases.cache import Cache, Say
from harness.releases.interpreter import Interpreter, interpreter
from harness.releases.libraries import LIBRARIES
from harness.releases.manifest import DamagedError
from harness.releases.pip import install
from harness.releases.release import Release

_ASKED: Final = tuple(
    sorted(
        {
            name
            for library in LIBRARIES.values()
            for companions in library.companions
            for name in (*companions.pins, *companions.lacking, *library.requires)
        }
    )
)


@dataclass(frozen=True)
class Layer:
    """One distribution of an overlay, and the folder its packages lie in."""

    distribution: str
    version: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True)
class Overlay:
    """A target's name in the worker, and what comes before the interpreter's own path; the release comes first."""

    target: str
    layers: tuple[Layer, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders, in the order in which they are searched."""
        return tuple(layer.folder for layer in self.layers)


def overlay_of(target: str, python: str, offline: bool) -> Overlay:
    """The overlay of a target: a release with what it needs, fetched where the cache lacks it; nothing for others.

    Raises `TargetUnavailable` when there is no such release, the interpreter cannot take it, or it is neither in
    the cache nor can be fetched.
    """
    release = Release.of(target)
    return Overlay(target) if release is None else laid_over(release, python, offline)


def laid_over(release: Release, python: str, offline: bool) -> Overlay:
    """A release and what it needs, laid over an interpreter. Raises `TargetUnavailable` as `overlay_of`."""
    over = interpreter(python, _ASKED)
    missing = [name for name in release.library.requires if name not in over.versions]
    if missing:
        raise TargetUnavailable(
            "not_installed",
            f"{release} needs {' and '.join(missing)} in {over.path}",
            f"{over.path} -m pip install {' '.join(missing)}",
        )
    cache = Cache.of_user()
    wanted = {release.library.distribution: str(release.version)}
    wanted |= release.library.companions_of(release.version, over.versions)
    layers = tuple(
        _layer(distribution, version, release, over, cache, offline) for distribution, version in wanted.items()
    )
    return Overlay(release.library.name, layers)


def _layer(
    distribution: str, version: str, release: Release, over: Interpreter, cache: Cache, offline: bool
) -> Layer:
    entry = cache.entry(distribution, version, over.tag)
    layer = Layer(distribution, version, entry.folder)
    damage = entry.damage()
    if damage == "":
        return layer
    purpose = "" if distribution == release.library.distribution else f", which {release} needs,"
    if offline:
        state = "is not in" if damage is None else f"is damaged ({damage}) in"
        raise TargetUnavailable(
            "not_installed",
            f"{layer}{purpose} {state} the cache {cache}, and --offline fetches nothing",
            f"lossgate fetch {release.target}{_option(over)}",
        )
    again = f"again, for {damage}" if damage else "once"
    _say(f"fetching {layer}{purpose and f' for {release}'} ({again}, into {cache})")

    def fill(folder: Path) -> None:
        install(distribution, version, folder, over)

    try:
        entry.made(fill, _say)
    except DamagedError as error:
        raise TargetUnavailable("not_installed", f"{layer} was not received whole: {error}", "try again") from None
    return layer


def _option(over: Interpreter) -> str:
    return "" if over.path == sys.executable else f" --python {over.path}"


def _say(line: str) -> None:
    print(f"lossgate: {line}", file=sys.stderr, flush=True)


