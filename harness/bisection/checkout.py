"""Commits of a git checkout, each laid out in a folder of its own; the checkout itself is only read."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from harness.errors import UsageError, did_you_mean

DOTS: Final = ".."
_SHORT: Final = 10


@dataclass(frozen=True)
class Commit:
    """One commit: its full hash and the first line of its message."""

    sha: str
    subject: str

    @property
    def name(self) -> str:
        """The beginning of its hash."""
        return self.sha[:_SHORT]


@dataclass(frozen=True)
class Checkout:
    """A repository by its git folder, and the folder in it, relative to its root, that was named."""

    git_folder: Path
    prefix: str

    @classmethod
    def of(cls, path: Path) -> Self:
        """The repository that a folder lies in. Raises `UsageError` when it lies in none, or there is no git."""
        if shutil.which("git") is None:
            raise UsageError("--git needs git, and there is none on PATH")
        if not path.is_dir():
            raise UsageError(f"--git: there is no folder {path}")
        found = _run(["git", "-C", str(path), "rev-parse", "--absolute-git-dir", "--show-prefix"])
        if found.returncode:
            raise UsageError(f"--git: {path} is no git checkout: {_said(found)}")
        git_folder, _, prefix = found.stdout.partition("\n")
        return cls(Path(git_folder), prefix.strip())

    def commits(self, text: str) -> tuple[Commit, ...]:
        """A and the commits from there to B, by first parents, oldest first, of `A..B`; `A..` goes to HEAD.

        Raises `UsageError` when it is no such range, an end is no commit, or B does not descend from A.
        """
        first, dots, last = text.partition(DOTS)
        if not dots or not first:
            raise UsageError(f"{text!r} is no range of commits", "takes A..B, both in it, or A.. to HEAD")
        start, end = self._commit(first), self._commit(last or "HEAD")
        if self._git("merge-base", "--is-ancestor", start, end).returncode:
            hint = ""
            if not self._git("merge-base", "--is-ancestor", end, start).returncode:
                hint = f"did you mean {last or 'HEAD'}{DOTS}{first}?"
            raise UsageError(f"{last or 'HEAD'} does not descend from {first}", hint)
        chain = self._lines("rev-list", "--first-parent", "--reverse", f"{start}{DOTS}{end}")
        described = self._lines("log", "--no-walk=unsorted", "--format=%H %s", start, *chain)
        return tuple(Commit(*line.partition(" ")[::2]) for line in described)

    @contextmanager
    def laid_out(self, commit: Commit) -> Iterator[Path]:
        """The files of a commit in a temporary folder, as of the named one; leaving removes them.

        Neither the repository's files nor its index, branches or list of work trees are touched, and no hook runs.
        """
        with tempfile.TemporaryDirectory(prefix="lossgate-", ignore_cleanup_errors=True) as work:
            tree = Path(work) / "tree"
            tree.mkdir()
            for command in (("read-tree", commit.sha), ("checkout-index", "--all")):
                self._lines(f"--work-tree={tree}", *command, index=Path(work) / "index")
            yield tree / self.prefix

    def _commit(self, revision: str) -> str:
        found = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if found.returncode:
            names = self._lines("for-each-ref", "--format=%(refname:short)")
            raise UsageError(f"--git: no commit {revision!r}", did_you_mean(revision, names))
        return found.stdout.strip()

    def _lines(self, *arguments: str, index: Path | None = None) -> list[str]:
        ended = self._git(*arguments, index=index)
        if ended.returncode:
            raise UsageError(f"git cannot read {self.git_folder}: {_said(ended)}")
        return ended.stdout.splitlines()

    def _git(self, *arguments: str, index: Path | None = None) -> subprocess.CompletedProcess[str]:
        return _run(["git", f"--git-dir={self.git_folder}", *arguments], index)


def _run(command: list[str], index: Path | None = None) -> subprocess.CompletedProcess[str]:
    # In a hook of git's these name the repository that the hook is of.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    return subprocess.run(
        command,
        env={**environment, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _said(ended: subprocess.CompletedProcess[str]) -> str:
    lines = ended.stderr.strip().splitlines() or [f"it ended with {ended.returncode}"]
    return lines[0].removeprefix("fatal: ")
