"""What is laid over an interpreter so that a release is found in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.outcome import TargetFacts, TargetUnavailable
from harness.releases.cache import Cache
from harness.releases.fetching import Fetcher, Layer
from harness.releases.interpreter import Interpreter, interpreter
from harness.releases.libraries import LIBRARIES
from harness.releases.release import Release

_ASKED: Final = tuple(sorted({name for library in LIBRARIES.values() for name in library.asked}))


@dataclass(frozen=True)
class Overlay:
    """A target's name in the worker, and what comes before the interpreter's own path; the release comes first."""

    target: str
    layers: tuple[Layer, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders, in the order in which they are searched."""
        return tuple(layer.folder for layer in self.layers)

    def told(self, facts: TargetFacts) -> TargetFacts:
        """What the target says of itself, and what was laid over.

        Raises `TargetUnavailable` when it says that it was loaded from elsewhere.
        """
        if not self.layers:
            return facts
        loaded, own = facts.versions.get("from", ""), self.folders[0]
        if not Path(loaded).resolve().is_relative_to(own.resolve()):
            raise TargetUnavailable(
                "broken",
                f"{self.layers[0]} was asked for, and its interpreter loads {facts.label} from {loaded}",
                "something in that environment, such as a sitecustomize, puts it before PYTHONPATH",
            )
        laid = ", ".join(map(str, self.layers))
        return replace(facts, replaced=(*facts.replaced, f"laid over the interpreter, from the cache: {laid}"))


def overlay_of(target: str, python: str, offline: bool) -> Overlay:
    """The overlay of a target: a release with what it needs, fetched where the cache lacks it; nothing for others.

    Raises `TargetUnavailable` when there is no such release, the interpreter cannot take it, or it is neither in
    the cache nor can be fetched.
    """
    release = Release.of(target)
    return Overlay(target) if release is None else laid_over(release, python, offline)


def laid_over(release: Release, python: str, offline: bool) -> Overlay:
    """A release and what it needs, laid over an interpreter. Raises `TargetUnavailable` as `overlay_of`."""
    library, over = release.library, interpreter_for_releases(python)
    missing = [name for name in library.requires if name not in over.versions]
    if missing:
        raise TargetUnavailable(
            "not_installed",
            f"{release} needs {', '.join(missing)}, not installed in {over.path}",
            f"{over.path} -m pip install {' '.join(missing)}",
        )
    fetcher = Fetcher(release, over, Cache.of_user(), offline)
    wanted = {library.distribution: str(release.version)}
    wanted |= library.companions_of(release.version, over.versions)
    return Overlay(library.name, tuple(fetcher.layer(name, version) for name, version in wanted.items()))


def interpreter_for_releases(python: str) -> Interpreter:
    """An interpreter, and what it has of all that releases may need. Raises `TargetUnavailable`."""
    return interpreter(python, _ASKED)
