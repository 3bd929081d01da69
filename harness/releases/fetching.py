"""One distribution, from the cache or else by pip."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from harness.outcome import TargetUnavailable
from harness.releases.cache import Cache
from harness.releases.interpreter import Interpreter
from harness.releases.manifest import DamagedError
from harness.releases.pip import install
from harness.releases.release import Release


@dataclass(frozen=True)
class Layer:
    """A distribution that is laid over an interpreter, and the folder its packages lie in."""

    distribution: str
    version: str
    folder: Path

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@dataclass(frozen=True)
class Fetcher:
    """Gets what a release needs over an interpreter; `offline`, only what the cache has."""

    release: Release
    over: Interpreter
    cache: Cache
    offline: bool

    def layer(self, distribution: str, version: str) -> Layer:
        """A distribution, whole. Raises `TargetUnavailable` when it is not there and cannot be fetched."""
        entry = self.cache.entry(distribution, version, self.over.tag)
        layer = Layer(distribution, version, entry.folder)
        damage = entry.damage() if entry.exists else ""
        if entry.exists and not damage:
            return layer
        itself = distribution == self.release.library.distribution
        if self.offline:
            raise self._lacking(f"{layer}{'' if itself else f', which {self.release} needs,'}", damage)
        purpose = "" if itself else f" for {self.release}"
        _say(f"fetching {layer}{purpose} ({f'again: {damage}' if damage else 'once'}, into {self.cache})")

        def fill(folder: Path) -> None:
            install(distribution, version, folder, self.over)

        try:
            entry.make(fill, _say)
        except DamagedError as error:
            message = f"{layer} did not arrive whole: {error}"
            raise TargetUnavailable("not_installed", message, "try again") from None
        except TargetUnavailable as error:
            if itself:
                raise
            message = f"{self.release} needs {layer}, and {error.message}"
            raise TargetUnavailable("not_installed", message, error.hint, error.details) from None
        return layer

    def _lacking(self, what: str, damage: str) -> TargetUnavailable:
        state = f"is damaged ({damage}) in" if damage else "is not in"
        option = "" if self.over.path == sys.executable else f" --python {self.over.path}"
        return TargetUnavailable(
            "not_installed",
            f"{what} {state} the cache {self.cache}, and --offline fetches nothing",
            f"lossgate fetch {self.release.target}{option}",
        )


def _say(line: str) -> None:
    print(f"lossgate: {line}", file=sys.stderr, flush=True)
