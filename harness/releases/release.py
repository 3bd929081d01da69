"""`trl==1.9.0`: a release as a target name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from packaging.version import InvalidVersion, Version

from harness.errors import did_you_mean
from harness.outcome import TargetUnavailable
from harness.releases.libraries import LIBRARIES, Library

# Every way to write a requirement, so that what is no exact release is told so.
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*([=<>!~@]+)\s*(.*?)\s*")


@dataclass(frozen=True)
class Release:
    """One release of a library."""

    library: Library
    version: Version

    def __str__(self) -> str:
        return f"{self.library.name} {self.version}"

    @property
    def target(self) -> str:
        """The target name."""
        return f"{self.library.name}=={self.version}"

    @classmethod
    def of(cls, target: str) -> Self | None:
        """The release that a target name stands for; None where it is a name of another kind.

        Raises `TargetUnavailable` when it asks for a release and names none that can be judged.
        """
        requirement = _REQUIREMENT.fullmatch(target)
        if requirement is None:
            return None
        name, operator, version = requirement.groups()
        library = LIBRARIES.get(name)
        if library is None:
            raise TargetUnavailable(
                "unknown",
                f"{target}: releases can be fetched of {', '.join(LIBRARIES)}, and not of {name!r}",
                _meant(name, version),
            )
        try:
            exact = Version(version)
        except InvalidVersion:
            exact = None
        if operator != "==" or exact is None:
            raise TargetUnavailable(
                "unknown", f"{target} is no exact release", f"name one, such as {name}=={library.first}"
            )
        if exact < library.first:
            raise TargetUnavailable(
                "unknown", f"{target} is too old: the first release that can be judged is {library.first}"
            )
        return cls(library, exact)

    @classmethod
    def named(cls, target: str) -> Self:
        """The release of that name. Raises `TargetUnavailable` when it is none."""
        release = cls.of(target)
        if release is None:
            raise TargetUnavailable("unknown", f"{target!r} is no release", "name one, such as trl==1.9.0")
        return release


def _meant(name: str, version: str) -> str:
    for library in LIBRARIES.values():
        if library.distribution == name.lower().replace("_", "-"):
            return f"did you mean '{library.name}=={version}'?"
    return did_you_mean(name, list(LIBRARIES))
