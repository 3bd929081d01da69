"""Wrong usage: one clear sentence with what was expected, exit 2 (or 3), never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.exit_codes import ExitCode
from tests.cli.conftest import Lossgate

WRONG = {
    "unknown target": (("run", "trll"), "no target named 'trll'", "did you mean 'trl'?"),
    "unknown loss type": (("run", "trl", "--loss-type", "grop"), "no loss type named 'grop'", "'grpo'"),
    "unknown level": (("run", "trl", "--level", "tokens"), "no level named 'tokens'", "did you mean 'token'?"),
    "unknown dtype": (("run", "trl", "--dtype", "float23"), "no dtype named 'float23'", "did you mean 'float32'?"),
    "unknown profile": (("run", "trl", "--profile", "nightli"), "no profile named", "did you mean 'nightly'?"),
    "unknown option": (("run", "trl", "--betta", "0"), "No such option: --betta", "--beta"),
    "unknown verb": (("runn",), "No such command 'runn'", "Did you mean 'run'?"),
    "negative beta": (("run", "trl", "--beta", "-1"), "--beta: got '-1'", "at least 0"),
    "beta that is no number": (("run", "trl", "--beta", "0,x"), "--beta: got 'x'", "at least 0"),
    "beta that is not finite": (("run", "trl", "--beta", "nan"), "--beta: got 'nan'", "at least 0"),
    "no examples": (("run", "trl", "--examples", "0"), "--examples: got 0", "from 1"),
    "negative seed": (("run", "trl", "--seed", "-3"), "--seed: got -3", "at least 0"),
    "no time": (("run", "trl", "--timeout", "0"), "--timeout: got 0", "above 0"),
    "empty list": (("run", "trl", "--dtype", ","), "no dtype given", "separated by commas"),
    "no such case": (("replay", "absent.json", "trl"), "no case file absent.json", "cases/"),
    "no such id": (("replay", "0123456789ab", "trl"), "no case '0123456789ab'", "takes a case file"),
    "format for another verb": (("targets", "--format", "markdown"), "markdown", "table"),
    "function without a loss type": (("run", "printed:loss"), "no parameter loss_type", "--loss-type"),
    "absent function": (
        ("run", "printed:losss", "--loss-type", "grpo"),
        "printed has no losss",
        "did you mean 'loss'?",
    ),
    "unknown device": (
        ("run", "printed:loss", "--loss-type", "grpo", "--device", "gpu"),
        "no device is called 'gpu'",
        "Expected one of cpu",
    ),
    "unknown device of a parity check": (
        ("parity", "printed:loss", "--loss-type", "grpo", "--devices", "cpu,gpu"),
        "no device is called 'gpu'",
        "Expected one of cpu",
    ),
    "absent module": (("run", "absent:loss", "--loss-type", "grpo"), "no module named 'absent'", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_one_message(name: str, lossgate: Lossgate) -> None:
    """The message says what was wrong and what is taken, and the exit code is 2."""
    arguments, what, expected = WRONG[name]
    result = lossgate(*arguments)
    assert result.returncode == 2
    assert what in result.stderr
    assert expected in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("blocked", ["file", "filled", "below_file"])
def test_out_that_cannot_be_written(blocked: str, lossgate: Lossgate, folder: Path) -> None:
    """A file in the way or a folder that holds something is refused before any target starts, and kept."""
    out = {"file": folder / "printed.py", "filled": folder, "below_file": folder / "printed.py" / "x"}[blocked]
    before = (folder / "printed.py").read_text()
    result = lossgate("run", "trl", "--out", out)
    assert result.returncode == 2
    assert "cannot start a run in" in result.stderr
    assert (folder / "printed.py").read_text() == before


def test_a_target_that_is_not_installed(lossgate: Lossgate, folder: Path) -> None:
    """Exit 3 with the command that installs it, and no folder of a run that judged nothing."""
    hide = folder / "hide" / "sitecustomize.py"
    hide.parent.mkdir()
    hide.write_text(
        "import sys\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'trl':\n"
        "            raise ModuleNotFoundError(\"No module named 'trl'\", name='trl')\n"
        "sys.meta_path.insert(0, Hide())\n"
    )
    result = lossgate("run", "trl", "--out", "out", PYTHONPATH=str(hide.parent))
    assert result.returncode == 3
    assert "trl is not installed" in result.stderr
    assert "pip install trl" in result.stderr
    assert not (folder / "out").exists()


def test_an_interpreter_without_torch(lossgate: Lossgate, tmp_path: Path) -> None:
    """--python names an interpreter that lacks torch: exit 3, said in a sentence."""
    empty = tmp_path / "python"
    empty.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
    empty.chmod(0o755)
    result = lossgate("run", "trl", "--python", empty)
    assert result.returncode == 3
    assert "torch" in result.stderr
    assert "Traceback" not in result.stderr


def test_help_names_every_verb_and_gives_an_example(lossgate: Lossgate) -> None:
    """`--help` answers without importing what a verb needs, and every verb has an example of its own."""
    result = lossgate("--help")
    for verb in ("run", "targets", "smoke", "replay"):
        assert verb in result.stdout
        assert "Example: lossgate" in lossgate(verb, "--help").stdout


def test_help_imports_nothing_heavy(lossgate: Lossgate) -> None:
    """What takes long to import is not imported for --help."""
    result = lossgate("--help", PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines()}
    assert "typer" in imported
    assert not imported & {"numpy", "pandas", "hypothesis", "flint", "torch", "rich.table", "jinja2"}


BREAKS = """
import sys
import lossgate_command
from harness import engine

def execute(*_):
    return {}["no such key"]

engine.execute = execute
sys.argv = ["lossgate", "run", "printed:loss", "--loss-type", "grpo", "--quiet"]
lossgate_command.main()
"""


def test_a_fault_of_our_own_is_no_finding(folder: Path) -> None:
    """What breaks inside lossgate has an exit code of its own, which no gate takes for a divergence."""
    result = subprocess.run(
        [sys.executable, "-c", BREAKS], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == ExitCode.BROKEN
    assert "lossgate: a fault of lossgate itself: KeyError: 'no such key'" in result.stderr
    assert "Traceback" in result.stderr
