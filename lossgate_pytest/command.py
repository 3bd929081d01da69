"""The `lossgate` command, in a process of its own that finds the project's modules as the tests do."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from lossgate_pytest.importing import hidden_by, project_path

# On a safe path: nothing in the current folder has the name of one of lossgate's packages, or of what they import.
_START: Final = ("-c", "from lossgate_command import main; main()")
_TOLD: Final = (2, 3)
"""Exit codes of a usage error, and of a target that did not start: what is printed is a sentence."""


class NotRun(Exception):
    """lossgate did not judge; the message says why."""


@dataclass(frozen=True)
class Command:
    """How lossgate is run.

    `python` has it; `options` are those of `lossgate run` that the project's settings add; `root` is the folder it
    runs in, pytest's root; `path` holds the folders that tests import from beside what is installed.
    """

    python: str
    options: tuple[str, ...]
    root: Path
    path: tuple[str, ...]

    @classmethod
    def of(cls, config: pytest.Config) -> Command:
        """As command line and settings say."""
        given, setting = config.getoption("--lossgate-python"), config.getini("lossgate_python")
        start = (
            config.invocation_params.dir if given else (config.inipath or config.rootpath / "pytest.ini").parent
        )
        python = given or setting or sys.executable
        if os.sep in python:
            python = str(start / Path(python).expanduser())
        return cls(python, tuple(config.getini("lossgate_options")), config.rootpath, tuple(project_path()))

    def judge(self, target: str, options: Sequence[str], out: Path) -> dict[str, Any]:
        """The report of a run in a folder `out`. Raises `NotRun`."""
        hidden = hidden_by(self.root, target)
        if hidden:
            raise NotRun(f"{hidden}: lossgate looks in pytest's root folder first; rename one of them")
        # Of an option that is given twice the last counts: settings may choose the interpreter, and nothing else
        # that is asked here.
        asked = [*self.options, *options, "--format", "json", "--quiet", "--out", str(out)]
        done = self._run("run", target, "--python", sys.executable, *asked)
        try:
            report: dict[str, Any] = json.loads(done.stdout)
        except ValueError:
            raise NotRun(self._why_not(done)) from None
        return report

    def explain(self, case: Path, target: str, facts: Mapping[str, Any], device: str) -> str:
        """The table of a case, token by token, or "" where there is none."""
        limits = ("--timeout", str(facts["timeout"]), "--memory", str(facts["memory"]))
        done = self._run("explain", str(case), target, "--python", facts["python"], "--device", device, *limits)
        return done.stdout.strip("\n") if done.returncode == 1 else ""

    def replay(self, case: Path, target: str, python: str, device: str) -> str:
        """The command that asks the target for a case again, to be typed in `root`."""
        words = ["lossgate", "replay", str(case), target]
        words += ["--python", python] if python != self.python else []
        words += ["--device", device] if device != "cpu" else []
        # The current folder is looked in anyway.
        path = [os.path.relpath(folder, self.root) for folder in self.path if folder != str(self.root)]
        before = f"PYTHONPATH={shlex.quote(os.pathsep.join(path))} " if path else ""
        return before + shlex.join(words)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONSAFEPATH": "1", "NO_COLOR": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(self.path)
        try:
            return subprocess.run(
                [self.python, *_START, *arguments],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
        except OSError as error:
            raise NotRun(f"lossgate cannot be started: {error}; {self._hint}") from None

    def _why_not(self, done: subprocess.CompletedProcess[str]) -> str:
        printed = done.stderr.strip()
        if done.returncode in _TOLD and printed:
            settings = f"\n  lossgate_options are {shlex.join(self.options)}" if self.options else ""
            return printed + settings
        last = printed.splitlines()[-1] if printed else f"its process ended with {done.returncode}"
        return f"lossgate does not run in {self.python}: {last}; {self._hint}"

    @property
    def _hint(self) -> str:
        return "--lossgate-python, or lossgate_python in the settings, names the interpreter that has it"
