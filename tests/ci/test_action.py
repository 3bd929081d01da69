"""action.yml: its steps are run as a runner runs them; what it says leads somewhere; workflows are valid."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.composite import Composite, Job
from tests.ci.tools import DOWNLOADS, PATH, schema_errors, security_findings
from tests.cli.conftest import COMMAND

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fork_ci"
ACTION = Composite.read(ROOT / "action.yml")
WRONG = {
    "targets": "fault:no_clip",
    "args": "--loss-type grpo --beta 0 --level token --dtype float32 --examples 2",
}
BESIDE_THEM = ("pyproject.toml", "README.md", "LICENSE", "action.yml")
OLDER = "24.2"
FILES = {
    "action.yml": "github-actions",
    ".github/workflows/ci.yml": "github-workflows",
    ".github/dependabot.yml": "dependabot",
    "examples/fork_ci/.github/workflows/lossgate.yml": "github-workflows",
}


def judge(folder: Path, environment: dict[str, str] | None = None, **inputs: str) -> Job:
    """Run the action in an empty workspace, with the command of this environment."""
    (folder / "workspace").mkdir(parents=True, exist_ok=True)
    return ACTION.run(
        {"python": sys.executable, **{name.replace("_", "-"): value for name, value in inputs.items()}},
        folder / "workspace",
        folder / "temporary",
        {"install": {"lossgate": str(COMMAND)}},
        environment,
    )


@pytest.mark.parametrize(("path", "schema"), FILES.items())
def test_a_file_is_valid(path: str, schema: str) -> None:
    """By the published schema of its kind."""
    assert schema_errors(schema, ROOT / path) == ""


def test_nobody_can_run_code_through_them() -> None:
    """No input is pasted into a script, every action is pinned by its hash, no job has rights it does not need."""
    assert security_findings(ROOT / "action.yml", ROOT / ".github") == ""


def test_expressions_lead_somewhere() -> None:
    """Each input and output of a step that the action names is there: a runner takes what is not for empty."""
    text = (ROOT / "action.yml").read_text()
    written = {
        f"steps.{step['id']}.outputs.{name}"
        for step in ACTION.steps
        for name in re.findall(r'echo "([a-z-]+)=', step.get("run", ""))
    }
    named = set(re.findall(r"\b(?:inputs|steps)\.[\w.-]+", text))
    assert {name for name in named if name.startswith("steps.")} <= written
    assert {name for name in named if name.startswith("inputs.")} == {f"inputs.{name}" for name in ACTION.defaults}


def test_the_action_by_itself(tmp_path: Path) -> None:
    """It installs lossgate from its folder, pinned, away from all else; a wrong loss fails the job, with words."""
    (tmp_path / "workspace").mkdir()
    job = Composite.read(pinned_to_older(tmp_path / "action") / "action.yml").run(
        {"python": sys.executable, **WRONG}, tmp_path / "workspace", kept(tmp_path), environment={"PATH": PATH}
    )
    assert job.exit_code == 1, job.printed
    assert f"lossgate {version('lossgate')}" in job.printed
    assert re.search(r"^grpo +token +0 +float32 .* DIVERGES ", job.printed, re.MULTILINE)
    assert "::error title=lossgate%3A fault%3Ano_clip::" in job.printed
    assert "## What stops the gate" in job.summary
    assert job.outputs["exit-code"] == "1"
    assert "<failure" in Path(job.outputs["junit"]).read_text()
    assert '"ruleId": "diverges"' in Path(job.outputs["sarif"]).read_text()
    assert (Path(job.outputs["run"]) / "run.json").is_file()
    (tool,) = (tmp_path / "temporary").glob("lossgate-*/tool/lossgate")
    assert [one.name for one in tool.glob("lib/python*/site-packages/packaging-*")] == [
        f"packaging-{OLDER}.dist-info"
    ]
    assert not any(tool.glob("lib/python*/site-packages/torch"))
    assert [entry.name for entry in (tool.parents[1] / "bin").iterdir()] == ["lossgate"]
    assert not any((tmp_path / "workspace").iterdir())


def pinned_to_older(folder: Path) -> Path:
    """A copy of the action, with all that is installed, pinned to a version that nothing else asks for."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folder.mkdir()
    for name in (*data["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], *BESIDE_THEM):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, folder / name)
    constraints = (ROOT / "constraints.txt").read_text()
    older = re.sub("^packaging==.*", f"packaging=={OLDER}", constraints, flags=re.MULTILINE)
    (folder / "constraints.txt").write_text(older)
    return folder


def kept(folder: Path) -> Path:
    """A runner's temporary folder, in which downloads are kept from an earlier run, as between jobs."""
    DOWNLOADS.mkdir(parents=True, exist_ok=True)
    (folder / "temporary").mkdir()
    (folder / "temporary" / "lossgate-downloads").symlink_to(DOWNLOADS)
    return folder / "temporary"


def test_a_runner_without_an_installer_is_told(tmp_path: Path) -> None:
    """Neither uv nor pipx: the job fails with a sentence that says what to do, and no exit code of lossgate."""
    given = {"place": {"folder": str(tmp_path), "downloads": str(tmp_path), "releases": str(tmp_path)}}
    job = ACTION.run({}, tmp_path, tmp_path, given, {"PATH": str(tmp_path)})
    assert job.exit_code == 1
    assert job.printed == (
        "::error title=lossgate::neither uv nor pipx is on this runner: install one of them in a step before\n"
    )
    assert job.outputs["exit-code"] == ""


def test_the_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    """Wrong usage is not a wrong loss; an interpreter that is not there is neither."""
    assert judge(tmp_path / "usage", targets="fault:no_clipp").outputs["exit-code"] == "2"
    missing = judge(tmp_path / "missing", targets="fault:no_clip", python="no-such-python")
    assert (missing.exit_code, missing.outputs["exit-code"]) == (3, "3")
    assert "no-such-python" in missing.printed


def test_inputs_are_words_and_no_script(tmp_path: Path) -> None:
    """What a shell would run, or replace by file names, reaches the command as it stands."""
    job = judge(tmp_path, targets="$(touch${IFS}here) *", args="; touch here")
    assert job.exit_code == 2
    assert not any((tmp_path / "workspace").iterdir())
    assert "no target named '$(touch${IFS}here)'" in job.printed


def test_every_input_reaches_the_command(tmp_path: Path) -> None:
    """Configuration, profile and strict expectations, from the folder that is asked for."""
    folder = tmp_path / "workspace" / "sub folder"
    folder.mkdir(parents=True)
    entry = '[[expect]]\ntarget = "fault:no_clip"\nloss_type = "grpo"\nreason = "TODO"\n'
    (folder / "our own.toml").write_text(f'targets = ["fault:no_clip"]\n{entry}')
    inputs = {"config": "our own.toml", "working_directory": "sub folder", "args": f"{WRONG['args']} --seed 3"}
    job = judge(tmp_path, **inputs)
    assert job.exit_code == 0, job.printed
    assert "profile ci" in job.printed
    job = judge(tmp_path, **inputs, strict_expectations="true", profile="nightly")
    assert job.exit_code == 1, job.printed
    assert "profile nightly  seed 3" in job.printed
    assert "replace its reason" in job.printed


def test_a_switch_is_on_or_off(tmp_path: Path) -> None:
    """A gate that was meant to be strict is not quietly lenient."""
    job = judge(tmp_path, targets="fault:no_clip", strict_expectations="yes")
    assert job.exit_code == 2
    assert job.printed == "::error title=lossgate::strict-expectations: takes true or false\n"


def test_a_cache_of_the_runner_is_used(tmp_path: Path) -> None:
    """LOSSGATE_CACHE, where the runner sets it, is where releases are looked for; it is not stored elsewhere."""
    job = judge(tmp_path, targets="trl==1.9.0", args="--offline", environment={"LOSSGATE_CACHE": str(tmp_path)})
    assert job.exit_code == 3
    assert f"trl 1.9.0 is not in the cache {tmp_path}," in job.printed
    (kept,) = (step["with"]["path"] for step in ACTION.steps if step.get("uses", "").startswith("actions/cache@"))
    assert kept == "${{ steps.place.outputs.downloads }}"


def test_the_workflow_uses_the_action() -> None:
    """The repository's own workflow and that of the example give the action inputs that it has."""
    own = used(ROOT / ".github" / "workflows" / "ci.yml", "./")
    assert {step["with"]["targets"] for step in own} == {"trl", "examples.pr_3395:loss"}
    (example,) = used(EXAMPLE / ".github" / "workflows" / "lossgate.yml", "OWNER/lossgate@")
    for step in (*own, example):
        assert step["with"].keys() <= ACTION.defaults.keys()


def used(path: Path, action: str) -> list[dict[str, Any]]:
    """The steps of a workflow that use an action."""
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"] if step.get("uses", "").startswith(action)]
