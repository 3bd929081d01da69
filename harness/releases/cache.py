"""lossgate's cache: one folder a distribution, which appears whole, and is checked at each use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from harness.outcome import TargetUnavailable
from harness.releases.manifest import DamagedError, check_record, check_seal, seal

Say = Callable[[str], None]
Fill = Callable[[Path], None]

_UNFINISHED: Final = ".fetching-"


@dataclass(frozen=True)
class Cache:
    """The folder that everything fetched lies in."""

    root: Path

    @classmethod
    def of_user(cls) -> Self:
        """`$LOSSGATE_CACHE`, or lossgate's folder in `$XDG_CACHE_HOME`, or in `~/.cache`.

        Raises `TargetUnavailable` where there is neither of these.
        """
        own = os.environ.get("LOSSGATE_CACHE")
        if own:
            return cls(Path(own).absolute())
        shared = os.environ.get("XDG_CACHE_HOME", "")
        # By its specification a relative path counts as none.
        if os.path.isabs(shared):
            return cls(Path(shared) / "lossgate")
        try:
            return cls(Path.home() / ".cache" / "lossgate")
        except RuntimeError:
            raise TargetUnavailable(
                "not_installed", "there is no home folder to keep fetched releases in", "set LOSSGATE_CACHE"
            ) from None

    def __str__(self) -> str:
        with contextlib.suppress(ValueError, RuntimeError):
            return f"~/{self.root.relative_to(Path.home())}"
        return str(self.root)

    def entry(self, distribution: str, version: str, tag: str) -> Entry:
        """The place of a distribution, as interpreters of a tag take it."""
        return Entry(self, self._place(tag) / f"{distribution}-{version}")

    def versions(self, distribution: str, tag: str) -> list[str]:
        """The versions of a distribution that are there, in no order."""
        prefix = f"{distribution}-"
        names = [entry.name for entry in self._place(tag).glob(f"{prefix}*")]
        # Another distribution's name may go on where this one's ends.
        return [name.removeprefix(prefix) for name in names if name.removeprefix(prefix)[:1].isdigit()]

    def _place(self, tag: str) -> Path:
        return self.root / "releases" / tag

    @contextlib.contextmanager
    def locked(self, say: Say) -> Iterator[None]:
        """For this process alone; the system ends it with the process."""
        self.root.mkdir(parents=True, exist_ok=True)
        with open(self.root / "lock", "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting for another lossgate, which is fetching into {self}")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


@dataclass(frozen=True)
class Entry:
    """A distribution in the cache, or the place for it."""

    cache: Cache
    folder: Path

    @property
    def exists(self) -> bool:
        """Whether it is there, damaged or not."""
        return self.folder.exists()

    def damage(self) -> str:
        """How what is there differs from what was put there, or ""; every file is read."""
        try:
            check_seal(self.folder)
        except DamagedError as damage:
            return str(damage)
        return ""

    def make(self, fill: Fill, say: Say) -> None:
        """Put in place what `fill` installs into an empty folder, unless another process has done so.

        Raises `DamagedError` when that is not what its RECORD says, `TargetUnavailable` when the cache cannot be
        written, and what `fill` raises.
        """
        try:
            with self.cache.locked(say):
                if not self.exists or self.damage():
                    self._make(fill)
        except OSError as error:
            raise TargetUnavailable(
                "not_installed",
                f"the cache {self.cache} cannot be written: {error.strerror or error}",
                "set LOSSGATE_CACHE to a folder that can",
            ) from error

    def _make(self, fill: Fill) -> None:
        place = self.folder.parent
        place.mkdir(parents=True, exist_ok=True)
        # Left by a process that was killed: nobody else is at work here.
        for left in place.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=place, ignore_cleanup_errors=True) as work:
            fresh = Path(work) / self.folder.name
            fill(fresh)
            check_record(fresh)
            seal(fresh)
            if self.folder.exists():
                self.folder.rename(Path(work) / "damaged")
            fresh.rename(self.folder)
