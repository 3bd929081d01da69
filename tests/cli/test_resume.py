"""`lossgate run --resume`: a run killed at any moment, resumed, has the rows of one that was never disturbed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from reports.run import Run
from tests.cli.conftest import COMMAND, EXAMPLE, Lossgate

# Judged as grpo it fails, so that the run ends with shrinking.
ARGUMENTS = (
    "run",
    "printed:loss",
    "--loss-type",
    "grpo",
    "--dtype",
    "float32",
    "--level",
    "token",
    "--examples",
    "4",
    "-q",
)
KILLS = 20


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the target in it, and an undisturbed run of it."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "printed.py").write_text(EXAMPLE.read_text())
    began = time.monotonic()
    subprocess.run([COMMAND, *ARGUMENTS, "--out", "whole"], cwd=folder, check=False, capture_output=True)
    (folder / "seconds").write_text(str(time.monotonic() - began))
    return folder


def _killed(home: Path, out: Path, after: float, *more: str) -> None:
    """Start the run and kill it, with all its processes but those that must notice by themselves."""
    process = subprocess.Popen(
        [COMMAND, *ARGUMENTS, "--out", out, *more],
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after)
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_random_moment(number: int, home: Path) -> None:
    """SIGKILL, then --resume: the same rows, the same case set, the same verdict, complete."""
    whole = Run.load(home / "whole")
    out = home / f"killed-{number}"
    moment = random.Random(number).uniform(0.3, 1.0) * float((home / "seconds").read_text())
    _killed(home, out, moment)
    if not (out / "run.json").exists():
        pytest.fail("killed before the folder was made: the moment says nothing")
    if Run.load(out).complete:
        # The machine was quicker than the undisturbed run: the end was reached, and there is nothing to resume.
        assert Run.load(out).rows.equals(whole.rows)
        return
    result = subprocess.run(
        [COMMAND, "run", "--resume", out, "--quiet"], cwd=home, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1, result.stderr
    resumed = Run.load(out)
    assert resumed.complete
    assert resumed.rows.equals(whole.rows)
    for name in ("case_set", "exit_code", "padding", "missing_regions"):
        assert resumed.facts[name] == whole.facts[name]
    assert {path.name for path in (out / "cases").iterdir()} == {
        path.name for path in (home / "whole" / "cases").iterdir()
    }


def test_killed_twice_and_resumed_with_more_jobs(home: Path) -> None:
    """How many processes judge is no part of the run: killed with one, killed with two, finished with two."""
    whole = Run.load(home / "whole")
    seconds = float((home / "seconds").read_text())
    out = home / "twice"
    _killed(home, out, 0.6 * seconds)
    process = subprocess.Popen(
        [COMMAND, "run", "--resume", out, "-q", "-j", "2"], cwd=home, start_new_session=True
    )
    time.sleep(0.5 * seconds)
    process.kill()
    process.wait()
    subprocess.run([COMMAND, "run", "--resume", out, "-q", "-j", "2"], cwd=home, check=False, capture_output=True)
    assert Run.load(out).complete
    assert Run.load(out).rows.equals(whole.rows)
    _assert_gone(process.pid)


def _assert_gone(group: int) -> None:
    """Nothing of a killed process's group is left, a few seconds later."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.2)
    os.killpg(group, signal.SIGKILL)
    pytest.fail("processes of the killed run are still there")


def test_a_complete_run_has_nothing_to_resume(lossgate: Lossgate, home: Path) -> None:
    """Resuming what is complete, or no run at all, is wrong usage."""
    result = lossgate("run", "--resume", home / "whole")
    assert result.returncode == 2
    assert "is complete" in result.stderr
    assert lossgate("run", "--resume", home).returncode == 2
    assert lossgate("run", "trl", "--resume", home / "whole").returncode == 2


def test_a_run_of_another_version_is_not_resumed(lossgate: Lossgate, home: Path, folder: Path) -> None:
    """What another lossgate began has other cases: it is refused, and left as it was."""
    out = folder / "old"
    (out / "rows").mkdir(parents=True)
    facts = json.loads((home / "whole" / "run.json").read_text())
    facts |= {"complete": False, "lossgate": "0.0.1", "records": 0}
    (out / "run.json").write_text(json.dumps(facts))
    result = lossgate("run", "--resume", out)
    assert result.returncode == 2
    assert "began with other lossgate: 0.0.1" in result.stderr
    assert json.loads((out / "run.json").read_text()) == facts


def test_jobs_give_the_same_rows(home: Path) -> None:
    """One process or three, the rows are the same."""
    subprocess.run([COMMAND, *ARGUMENTS, "--out", "jobs", "-j", "3"], cwd=home, check=False, capture_output=True)
    assert Run.load(home / "jobs").rows.equals(Run.load(home / "whole").rows)
