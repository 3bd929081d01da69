"""`0.17.0..1.16.0`: the releases of a library from one to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from packaging.version import Version

from harness.errors import UsageError, did_you_mean
from harness.releases import pip
from harness.releases.cache import Cache
from harness.releases.libraries import LIBRARIES, Library
from harness.releases.overlay import interpreter_for_releases, laid_over
from harness.releases.release import Release

DOTS: Final = ".."


@dataclass(frozen=True)
class Span:
    """The releases of a library from `first` to `last`, both in it; None: from the oldest, to the newest."""

    library: Library
    first: Release | None
    last: Release | None

    def __str__(self) -> str:
        ends = ("" if end is None else str(end.version) for end in (self.first, self.last))
        return f"{self.library.name} {DOTS.join(ends)}"

    @classmethod
    def of(cls, name: str, text: str) -> Self:
        """Read the name of a library and a range.

        Raises `UsageError` when it is no range or a reversed one, `TargetUnavailable` when an end is no release
        that can be judged.
        """
        if name not in LIBRARIES:
            # As every other name of a release is refused.
            Release.of(f"{name}=={text.partition(DOTS)[0] or 'A'}")
            raise UsageError(f"{name!r} is no library that releases can be fetched of", _meant(name))
        first, dots, last = text.partition(DOTS)
        if not dots or not (first or last):
            example = f"{LIBRARIES[name].first}{DOTS}"
            raise UsageError(
                f"{text!r} is no range of releases",
                f"takes A..B, both in it, or A.. for all from A on, such as {example}",
            )
        ends = [Release.named(f"{name}=={end}") if end else None for end in (first, last)]
        span = cls(LIBRARIES[name], *ends)
        if span.first and span.last and span.first.version > span.last.version:
            raise UsageError(f"{text} is reversed: {first} is the newer one", f"did you mean {last}{DOTS}{first}?")
        return span

    def releases(self, python: str, offline: bool) -> tuple[Release, ...]:
        """Every final release in it that suits an interpreter, oldest first; `offline`, those in the cache.

        Yanked ones are left out, but for an end that is named.

        Raises `TargetUnavailable` when an end cannot be had or the releases cannot be listed, `UsageError` when
        there is none.
        """
        found = {version for version in self._listed(python, offline) if self._holds(version)}
        for end in (self.first, self.last):
            if end is not None and end.version not in found:
                # It is yanked, for another Python, or there is none: then this says so.
                laid_over(end, python, offline)
                found.add(end.version)
        if not found:
            raise UsageError(f"there is no release in {self}")
        return tuple(Release(self.library, version) for version in sorted(found))

    def _listed(self, python: str, offline: bool) -> Sequence[Version]:
        over = interpreter_for_releases(python)
        if offline:
            return [Version(text) for text in Cache.of_user().versions(self.library.distribution, over.tag)]
        return pip.versions(self.library.distribution, over)

    def _holds(self, version: Version) -> bool:
        first = self.first.version if self.first is not None else self.library.first
        return first <= version and (self.last is None or version <= self.last.version)


def _meant(name: str) -> str:
    return did_you_mean(name, list(LIBRARIES)) or f"takes {', '.join(LIBRARIES)}"
