"""What a bisection goes through: the releases of a library, or the commits of a checkout."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from harness.bisection.checkout import Checkout, Commit
from harness.bisection.finding import Finding
from harness.errors import UsageError
from harness.plan import Plan
from harness.releases.libraries import LIBRARIES
from harness.releases.release import Release
from harness.single_target import ImportPlace, Task, judged_alone

_SOURCES: Final = "src"


class Row(Protocol):
    """Candidates, oldest first, that can be judged by their numbers; `kind` is what one of them is."""

    @property
    def kind(self) -> str:
        """ "release" or "commit"."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """What they are called, in order."""
        ...

    def judged(self, number: int) -> Finding:
        """Judge one of them in the cell."""
        ...


@dataclass(frozen=True)
class Releases:
    """Releases of a library; `plan` is of one cell, `root` the folder for their runs."""

    plan: Plan
    releases: tuple[Release, ...]
    root: Path
    kind: str = "release"

    @property
    def names(self) -> Sequence[str]:
        """Their versions."""
        return [str(one.version) for one in self.releases]

    def judged(self, number: int) -> Finding:
        """Judge a release."""
        release = self.releases[number]
        plan = replace(self.plan, targets=(release.target,))
        folder = self.root / f"{release.library.name}-{release.version}"
        return Finding.of(judged_alone(Task(self.names[number], plan, folder)), release.target, self.root)


@dataclass(frozen=True)
class Commits:
    """Commits of a checkout that the target of a plan lies in."""

    plan: Plan
    checkout: Checkout
    commits: tuple[Commit, ...]
    root: Path
    kind: str = "commit"

    @property
    def names(self) -> Sequence[str]:
        """The beginnings of their hashes."""
        return [one.name for one in self.commits]

    def judged(self, number: int) -> Finding:
        """Judge a commit: its own files come before all that is installed."""
        commit, (target,) = self.commits[number], self.plan.targets
        module = imported_by(self.plan.settings_of(target).name)
        with self.checkout.laid_out(commit) as tree, tempfile.TemporaryDirectory(prefix="lossgate-") as cwd:
            roots = [root for root in (tree / _SOURCES, tree) if root.is_dir()]
            holding = [root for root in roots if _holds(root, module)]
            if not holding:
                # What is installed would be judged in its place.
                return Finding(commit.name, target, None, None, f"it has no {module}")
            path = tuple(sorted(roots, key=lambda root: root != holding[0]))
            task = Task(commit.name, self.plan, self.root / commit.name, ImportPlace(Path(cwd), path))
            return Finding.of(judged_alone(task), target, self.root)


def imported_by(target: str) -> str:
    """The module that a target is imported from.

    Raises `UsageError` where it is of a kind that no commit of a repository can hold.
    """
    if target in LIBRARIES:
        return LIBRARIES[target].distribution.replace("-", "_")
    module, colon, _ = target.partition(":")
    if not colon or module == "fault" or not all(part.isidentifier() for part in module.split(".")):
        raise UsageError(
            f"--git: {target} is nothing that a commit holds",
            f"takes {', '.join(LIBRARIES)}, module:function or module:Trainer",
        )
    return module


def _holds(root: Path, module: str) -> bool:
    """Whether a module would be imported from a folder; a part of it may be compiled."""
    place = root.joinpath(*module.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file() or any(place.parent.glob(f"{place.name}.*.so"))
