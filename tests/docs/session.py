"""A reader who follows a page from top to bottom, in a folder of his own that looks like a clone.

Beside the clone lie a package with a loss of its own, and environments under the names that pages give them.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.docs.pages import ROOT, Block, Command

RUN = re.compile(r"lossgate-runs/\d{8}-\d{6}-[0-9a-f]{4}")
_OF_A_CLONE = ("cases", "docs", "examples", "lossgate.toml")
_CODE = ("cases", "harness", "oracles", "reports", "lossgate_command.py", "tests", "pyproject.toml")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "published")
_COMMAND = """\
#!{python}
import sys
sys.path.insert(0, "{clone}")
from lossgate_command import main
main()
"""
_FORK = ROOT / "examples" / "fork_ci" / "fork"
_CELL = (("--dtype", "float32"), ("--level", "token"), ("--beta", "0.04"))
_FEW = {"run": (*_CELL, ("--examples", "1")), "compare": (*_CELL, ("--examples", "1")), "identify": _CELL[1:2]}
_LONG = 300


@dataclass
class Session:
    """One page's commands, in `folder`; `path` is what PATH begins with, `environment` is added to it."""

    folder: Path
    path: tuple[Path, ...] = (Path(sys.executable).parent,)
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def in_a_clone(cls, place: Path) -> Session:
        """A clone as its user has it: with `.venv`, and with a package of his own in the current folder."""
        clone = place / "clone"
        clone.mkdir()
        for name in _OF_A_CLONE:
            source = ROOT / name
            if source.is_dir():
                (clone / name).symlink_to(source)
            else:
                # A command may write into it.
                shutil.copy(source, clone)
        for package in ("my_pkg", "my_fork"):
            shutil.copytree(_FORK, clone / package, ignore=shutil.ignore_patterns("__pycache__"))
        for folder in (clone, place / "fork", place / "my-fork"):
            folder.mkdir(exist_ok=True)
            (folder / ".venv").symlink_to(sys.prefix)
        return cls(clone)

    @classmethod
    def in_a_changed_clone(cls, place: Path) -> Session:
        """A clone whose own code is changed: everything in it is a copy, and the command runs it."""
        session = cls.in_a_clone(place)
        for name in _CODE:
            target = session.folder / name
            target.unlink(missing_ok=True)
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, target, ignore=_LEFT_OUT)
            else:
                shutil.copy(source, target)
        programs = place / "bin"
        programs.mkdir()
        command = programs / "lossgate"
        command.write_text(_COMMAND.format(python=sys.executable, clone=session.folder))
        command.chmod(0o755)
        return replace(session, path=(programs, *session.path))

    @classmethod
    def in_a_copy(cls, source: Path, place: Path) -> Session:
        """A copy of a folder of the repository, with `.venv`."""
        folder = place / source.name
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("build", "__pycache__"))
        (folder / ".venv").symlink_to(sys.prefix)
        return cls(folder)

    def run(self, command: Command) -> subprocess.CompletedProcess[str]:
        """A command as it is typed, by bash.

        Where nothing is said of its output, as few cells and cases are judged as there can be.
        """
        text = self.filled(command.text)
        if command.shown is None and command.words[0].endswith("lossgate"):
            verb, *given = command.words[1:]
            few = [word for option in _FEW.get(verb, ()) if option[0] not in given for word in option]
            text = re.sub(rf"lossgate {verb}\b", f"lossgate {verb} {' '.join(few)}", text, count=1)
        return self.bash(text)

    def filled(self, text: str) -> str:
        """A text with the newest run for `<run>`."""
        return text.replace("<run>", self.newest_run.name) if "<run>" in text else text

    def bash(self, text: str) -> subprocess.CompletedProcess[str]:
        """A line, by bash."""
        path = os.pathsep.join((*map(str, self.path), os.environ["PATH"]))
        return subprocess.run(
            ["bash", "-c", text],
            cwd=self.folder,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "PATH": path, **self.environment},
            capture_output=True,
            text=True,
            timeout=_LONG,
            check=False,
        )

    def python(self, text: str) -> subprocess.CompletedProcess[str]:
        """A piece of Python, by itself."""
        return self.bash(f"python -c {shlex.quote(self.filled(text))}")

    @property
    def newest_run(self) -> Path:
        """The folder of the run that was written last; of one that is made now, if there is none."""
        runs = self.folder / "lossgate-runs"
        if not runs.exists():
            options = " ".join(word for option in _FEW["run"] for word in option)
            self.bash(f"lossgate run examples.pr_3395:loss --loss-type grpo --quiet {options}")
        return max(runs.glob("*/run.json"), key=lambda path: path.stat().st_mtime_ns).parent

    def write(self, block: Block) -> None:
        """The file that a block shows."""
        file = self.folder / block.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")

    def change(self, block: Block) -> None:
        """The file that a block of lines with `-` and `+` changes: each run of other lines stands in it once."""
        file = self.folder / block.file
        text = file.read_text(encoding="utf-8")
        for hunk in re.split(r"^@@.*\n", block.text, flags=re.MULTILINE):
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if not line.startswith("+"))
            after = "".join(line[1:] for line in lines if not line.startswith("-"))
            assert text.count(before) == 1, f"{block}: {file.name} has these lines {text.count(before)} times"
            text = text.replace(before, after)
        file.write_text(text, encoding="utf-8")
