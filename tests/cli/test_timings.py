"""`--timings` says where the time of a run went."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Lossgate

SLOW = """
import inspect
import time

import printed

def loss(*tensors, **options):
    time.sleep(0.01)
    return printed.loss(*tensors, **options)

loss.__signature__ = inspect.signature(printed.loss)
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_share_of_the_target(jobs: int, lossgate: Lossgate, folder: Path) -> None:
    """A slow target has nearly all the time of its processes, one for each job; the file says the same."""
    (folder / "slow.py").write_text(SLOW)
    cell = ("--loss-type", "bnpo", "--beta", "0", "--level", "token", "--dtype", "float32", "--examples", "1")
    result = lossgate("run", "slow:loss", *cell, "--quiet", "--timings", "--jobs", str(jobs), "--out", "out")
    assert result.returncode == 0, result.stderr
    summary = json.loads((folder / "out" / "timings" / "summary.json").read_text())
    (use,) = summary["targets"].values()
    assert 0.5 < use["share"] <= use["busy"] / use["wall"] <= 1.0
    # What it does not support is answered without a call.
    assert use["called"] >= 0.8 * 0.01 * use["cases"]
    said = re.search(r"slow:loss: (\d+)% of its processes' ([\d.]+) s in its own loss and gradient", result.stderr)
    assert said is not None, result.stderr
    assert float(said[2]) == pytest.approx(use["wall"], abs=0.06)
    assert int(said[1]) == round(100 * use["share"])
    assert list(summary["parts"]) == ["start", "judging", "padding", "strength", "explaining"]
    # Each job has a process of its own.
    assert use["wall"] <= 1.1 * jobs * (summary["parts"]["judging"] + summary["parts"]["padding"])


def test_without_the_option_nothing_is_said(lossgate: Lossgate) -> None:
    """The file is there all the same."""
    cell = ("--loss-type", "bnpo", "--beta", "0", "--level", "token", "--dtype", "float32", "--examples", "1")
    result = lossgate("run", "printed:loss", *cell, "--quiet", "--out", "out")
    assert result.returncode == 0, result.stderr
    assert "in its own loss and gradient" not in result.stderr + result.stdout
