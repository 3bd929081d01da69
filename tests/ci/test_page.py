"""docs/ci.md tells the truth: its commands are commands, its files are valid, its tables are those of the code."""

from __future__ import annotations

import re
import shlex
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from harness.cli import app
from harness.exit_codes import ExitCode
from tests.ci.composite import Composite
from tests.ci.tools import schema_errors

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "fork_ci"
ACTION = Composite.read(ROOT / "action.yml")
PAGE = (ROOT / "docs" / "ci.md").read_text()
BLOCKS = [textwrap.dedent(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
OF_SCRIPTS = [words for block in BLOCKS for words in re.findall(r" (lossgate run .*)", block)]
SHOWN = [
    line.strip()
    for text in (PAGE, (EXAMPLE / "README.md").read_text())
    for line in re.findall(r"^    (lossgate .*)$", text, re.MULTILINE)
]
# The smallest workflow that a list of steps can stand in.
AROUND: dict[str, Any] = {"on": "push", "jobs": {"gate": {"runs-on": "ubuntu-latest"}}}


@pytest.mark.parametrize("command", [*SHOWN, *OF_SCRIPTS])
def test_a_command_is_one(command: str) -> None:
    """Verb, options and arguments are taken by the command line."""
    verb, *arguments = shlex.split(command)[1:]
    group: Any = typer.main.get_command(app)
    assert verb in group.commands
    group.commands[verb].make_context(verb, arguments)


def test_commands_were_found() -> None:
    """Each kind of command that the page has is looked at."""
    assert len(OF_SCRIPTS) == 1
    assert {command.split()[1] for command in SHOWN} == {"run", "fetch", "explain", "replay"}


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_valid(block: str, tmp_path: Path) -> None:
    """By the published schema of what it is pasted into: a workflow, the steps of one, a pipeline of GitLab."""
    data = yaml.safe_load(block)
    if isinstance(data, list):
        data = {**AROUND, "jobs": {"gate": {**AROUND["jobs"]["gate"], "steps": data}}}
        block = yaml.safe_dump(data)
    schema = "gitlab-ci" if "lossgate" in data else "github-workflows"
    (tmp_path / "block.yml").write_text(block)
    assert schema_errors(schema, tmp_path / "block.yml") == ""


def test_every_block_gives_the_action_what_it_takes() -> None:
    """The inputs, and the outputs that another step reads."""
    found = [
        step for block in BLOCKS for step in steps(yaml.safe_load(block)) if "lossgate@" in step.get("uses", "")
    ]
    assert len(found) == 3
    for step in found:
        assert step["with"].keys() <= ACTION.defaults.keys()
    assert set(re.findall(r"steps\.lossgate\.outputs\.([\w-]+)", PAGE)) <= ACTION.outputs.keys()


def steps(data: Any) -> list[dict[str, Any]]:
    """Those of a workflow, or of a list of them."""
    if isinstance(data, list):
        return data
    return [step for job in data.get("jobs", {}).values() for step in job["steps"]]


def test_the_tables_are_those_of_the_code() -> None:
    """Inputs, outputs and exit codes: all of them, in order, and no others."""
    assert first_column("input") == list(ACTION.defaults)
    assert first_column("output") == list(ACTION.outputs)
    assert first_column("exit code") == [str(int(code)) for code in ExitCode]


def first_column(head: str) -> list[str]:
    """The names in the first column of the table that has this head."""
    (table,) = re.findall(rf"^\| {head} \|.*\n\|[-|]*\n((?:\|.*\n)*)", PAGE, re.MULTILINE)
    return [name for row in table.splitlines() for name in row.split("|")[1].replace("`", "").strip().split(", ")]


def test_pins_are_of_this_release() -> None:
    """Page and example pin the lossgate that they describe."""
    texts = (PAGE, (EXAMPLE / ".github" / "workflows" / "lossgate.yml").read_text())
    pins = {pin for text in texts for pin in re.findall(r"OWNER/lossgate@v([\w.]+)", text)}
    assert pins == {version("lossgate")}


def test_no_page_starts_code_of_others_with_rights() -> None:
    """Code of a pull request is run: only with a token that can read."""
    for path in (ROOT / ".github" / "workflows" / "ci.yml", EXAMPLE / ".github" / "workflows" / "lossgate.yml"):
        text = path.read_text()
        assert "pull_request_target" not in text
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
