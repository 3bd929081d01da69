"""A project's own packages of our names hide ours from nobody, and ours hide none of them from its losses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Lossgate

NAMES = ("cases", "harness", "oracles", "reports")
FEW = ("--loss-type", "grpo", "--dtype", "float32", "--level", "token", "--beta", "0", "--examples", "1", "-q")

LOSSES = """
import cases

def grpo_loss(logps, old_logps, advantages, mask, epsilon_low, epsilon_high):
    assert cases.OWNER == "the project", cases
    ratio = (logps - (logps.detach() if old_logps is None else old_logps)).exp()
    advantages = advantages if advantages.dim() == 2 else advantages[:, None]
    clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    token_losses = -(ratio * advantages).minimum(clipped * advantages)
    return ((token_losses * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()
"""


@pytest.fixture
def project(folder: Path) -> Path:
    """A folder with a package of each of our names, of which only `cases` can be imported; twice."""
    for place in (folder, folder / "installed"):
        for name in NAMES:
            (place / name).mkdir(parents=True)
            (place / name / "__init__.py").write_text(f"raise RuntimeError('{place} has {name} of its own')\n")
    (folder / "sitecustomize.py").write_text(f"import sys; sys.path.insert(0, '{folder / 'installed'}')\n")
    (folder / "cases" / "__init__.py").write_text("OWNER = 'the project'\n")
    (folder / "typer.py").write_text("raise RuntimeError('the project has a typer of its own')\n")
    (folder / "losses.py").write_text(LOSSES)
    return folder


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("target", ["fault:none", "losses:grpo_loss"])
def test_ours_run_and_the_losses_see_their_own(lossgate: Lossgate, project: Path, target: str, jobs: str) -> None:
    """In the project's folder and with it on PYTHONPATH: the command, its judging processes, and its targets."""
    result = lossgate("run", target, *FEW, "--jobs", jobs, PYTHONPATH=f"{project}:")
    assert result.stderr == ""
    assert result.returncode == 0, result.stdout
    assert f"{target}: 1 cell, " in result.stdout
    assert "nothing diverges" in result.stdout


def test_a_folder_that_is_gone_is_a_sentence(folder: Path) -> None:
    """Wherever it is noticed first."""
    gone = folder / "gone"
    gone.mkdir()
    result = subprocess.run(
        ["sh", "-c", f"rmdir {gone}; exec {COMMAND} run fault:none"], cwd=gone, capture_output=True, text=True
    )
    assert result.returncode == 2
    assert result.stderr == "lossgate: the current folder is gone; change into one that is there\n"
