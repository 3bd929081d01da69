"""A composite action of GitHub, read from its file; its `run:` steps are run here as a runner runs them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


@dataclass
class Job:
    """What is left of a run of the action.

    `exit_code`: of the step that failed, or 0; `outputs`: the action's; `printed`: what its steps printed;
    `summary`: the job summary.
    """

    exit_code: int = 0
    outputs: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    summary: str = ""


@dataclass(frozen=True)
class Composite:
    """An action: the defaults of its inputs, its outputs as expressions, and its steps."""

    folder: Path
    defaults: Mapping[str, str]
    outputs: Mapping[str, str]
    steps: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path) -> Composite:
        """The action of an action.yml."""
        data = yaml.safe_load(path.read_text())
        return cls(
            folder=path.parent,
            defaults={name: one["default"] for name, one in data["inputs"].items()},
            outputs={name: one["value"] for name, one in data["outputs"].items()},
            steps=data["runs"]["steps"],
        )

    def run(
        self,
        inputs: Mapping[str, Any],
        workspace: Path,
        temporary: Path,
        given: Mapping[str, Mapping[str, str]] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Job:
        """Run its `run:` steps in a workspace, until one fails. Steps that use other actions are left out.

        `given` has, by the id of a step that is not to be run, its outputs. Raises `KeyError` for an input that
        there is none of, and for an expression that leads nowhere.
        """
        job = Job()
        known = {f"inputs.{name}": value for name, value in self.defaults.items()}
        for name, value in inputs.items():
            if name not in self.defaults:
                raise KeyError(f"the action has no input {name}")
            known[f"inputs.{name}"] = str(value)
        for name, outputs in (given or {}).items():
            known |= {f"steps.{name}.outputs.{output}": value for output, value in outputs.items()}
        temporary.mkdir(parents=True, exist_ok=True)
        for step in self.steps:
            if "run" in step and step["id"] not in (given or {}) and not job.exit_code:
                known |= self._step(step, known, workspace, temporary, environment or {}, job)
        for name, expression in self.outputs.items():
            job.outputs[name] = EXPRESSION.sub(lambda found: known.get(found[1], ""), expression)
        summary = temporary / "summary.md"
        job.summary = summary.read_text() if summary.exists() else ""
        return job

    def _step(
        self,
        step: Mapping[str, Any],
        known: Mapping[str, str],
        workspace: Path,
        temporary: Path,
        environment: Mapping[str, str],
        job: Job,
    ) -> dict[str, str]:
        """Run one step with the shell that a runner runs it with; returns its outputs by their expressions."""

        def filled(text: str) -> str:
            return EXPRESSION.sub(lambda found: known[found[1]], text)

        assert step["shell"] == "bash"
        output = temporary / f"{step['id']}.output"
        output.touch()
        # An expression in a script could be anything by the time that the shell reads it.
        assert "${{" not in step["run"]
        script = temporary / f"{step['id']}.sh"
        script.write_text(step["run"])
        result = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=workspace / filled(step.get("working-directory", ".")),
            env={
                **os.environ,
                "NO_COLOR": "1",
                **environment,
                "GITHUB_ACTIONS": "true",
                "GITHUB_ACTION_PATH": str(self.folder),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(temporary / "summary.md"),
                "RUNNER_TEMP": str(temporary),
                **{name: filled(value) for name, value in step.get("env", {}).items()},
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        job.printed += result.stdout
        job.exit_code = result.returncode
        pairs = (line.partition("=") for line in output.read_text().splitlines())
        return {f"steps.{step['id']}.outputs.{name}": value for name, _, value in pairs}
