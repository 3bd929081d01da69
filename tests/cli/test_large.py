"""`--large`: a fault that only size shows is found, made smaller, kept in little room and looked at."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cases.large import large_descriptions
from harness.plan import Plan
from reports.run import Run
from tests.cli.conftest import Lossgate

# Right, but for a count that float16 holds up to 2,048 exactly, and up to 65,504 at all.
COUNTED = """
import torch


def loss(logps, old_logps, ref_logps, advantages, mask, beta, epsilon_low, epsilon_high):
    ratio = torch.exp(logps - (logps.detach() if old_logps is None else old_logps))
    a = advantages if advantages.dim() == 2 else advantages[:, None]
    losses = -torch.min(ratio * a, torch.clamp(ratio, 1 - epsilon_low, 1 + epsilon_high) * a)
    return (losses * mask).sum() / mask.sum().clamp(min=1).to(torch.float16)
"""
CELL = ("--loss-type", "bnpo", "--level", "token", "--beta", "0", "--dtype", "bfloat16", "--examples", "1", "-q")


@pytest.fixture
def counted(folder: Path) -> Path:
    (folder / "counted.py").write_text(COUNTED)
    return folder


def test_a_count_that_overflows(lossgate: Lossgate, counted: Path) -> None:
    """Ordinary cases pass it, large ones fail it; what is left of the largest, with too many to read, is kept."""
    result = lossgate("run", "counted:loss", *CELL, "--large", "--out", "large", "--html", "page.html")
    assert result.returncode == 1
    assert "only large batches fail" in result.stdout
    run = Run.load(counted / "large")
    assert (run.rows["phase"] == "large").sum() == len(large_descriptions())
    assert set(run.rows["phase"][run.rows["verdict"] == "diverges"]) == {"large", "shrunk"}
    shrunk = run.rows[run.rows["phase"] == "shrunk"].iloc[0]
    assert shrunk["tokens"] == 65_520, "the first count that float16 rounds to infinity"
    assert [path.stem for path in (counted / "large" / "cases").iterdir()] == [shrunk["case_id"]]
    assert (counted / "large" / "cases" / f"{shrunk['case_id']}.json").stat().st_size < 2**20
    _is_looked_at(lossgate, counted, shrunk["case_id"])
    _is_resumed(lossgate, counted, run)


def _is_looked_at(lossgate: Lossgate, folder: Path, case_id: str) -> None:
    """Its table has as many rows as can be read, the worst first, and says so; a script is refused."""
    path = folder / "large" / "cases" / f"{case_id}.json"
    explained = lossgate("explain", path)
    assert explained.returncode == 1
    lines = explained.stdout.splitlines()
    assert "reason, from all cases of the cell: only large batches fail" in explained.stdout
    assert lines[-2] == "  and 65456 more tokens"
    assert lines[-1].startswith("  a large batch: what each token brings to the loss is left out; those whose")
    page = (folder / "page.html").read_text()
    assert "a large batch: what each token brings to the loss is left out" in page
    assert "65456 more tokens" in page
    assert len(page) < 2**20
    # Outside its run, nothing is known of it but its numbers.
    shutil.copy(path, folder / "alone.json")
    alone = lossgate("explain", "alone.json", "counted:loss")
    assert "what would explain this case alone: not looked for in a batch of this size" in alone.stdout
    refused = lossgate("reproduce", path)
    assert refused.returncode == 2
    assert "no script: a batch of 65,520 positions is too large for one" in refused.stderr
    assert not (folder / "large" / "reproducers").exists()


def _is_resumed(lossgate: Lossgate, folder: Path, run: Run) -> None:
    """Large batches are drawn again from the schedule; what they were shrunk to is read from the disk."""
    described = folder / "large" / "run.json"
    facts = json.loads(described.read_text())
    assert facts["large"] is True
    described.write_text(json.dumps({**facts, "complete": False}))
    assert lossgate("run", "--resume", "large", "-q").returncode == 1
    assert Run.load(folder / "large").rows.equals(run.rows)


def test_nightly_has_them() -> None:
    """By default; either profile can do otherwise."""
    assert not Plan.of(["trl"]).large
    assert Plan.of(["trl"], large=True).large
    nightly = Plan.of(["trl"], profile="nightly", seed=1)
    assert nightly.large
    assert not Plan.of(["trl"], profile="nightly", large=False).large
    assert Plan.from_facts(json.loads(json.dumps(nightly.as_facts())), jobs=1) == nightly


def test_a_library_that_is_right_at_every_size(lossgate: Lossgate, counted: Path) -> None:
    """TRL, in one loss of each kind of mean; no witness of a conforming cell is large."""
    result = lossgate(
        "run", "trl", "--loss-type", "grpo,dapo", "--level", "token", "--beta", "0.04", "--dtype", "float32",
        "--examples", "1", "--large", "-q", "--out", "trl",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    rows = Run.load(counted / "trl").rows
    large = rows[rows["phase"] == "large"]
    assert len(large) == 2 * len(large_descriptions())
    assert set(large["verdict"]) == {"conforms"}
    assert max(path.stat().st_size for path in (counted / "trl" / "cases").iterdir()) < 2**16


def test_seeded_faults_of_size(lossgate: Lossgate) -> None:
    """`lossgate faults --large` says that they are caught, and in which phase."""
    only = ("--only", "blocks_counted_whole,rest_of_blocks_left_out", "--dtype", "float32", "-q")
    found = lossgate("faults", *only, "--large", "--format", "json")
    assert found.returncode == 0
    content = json.loads(found.stdout)
    assert (content["score"], content["large"]) == ("2 of 2 faults caught", True)
    assert {fault["dtypes"]["float32"]["phase"] for fault in content["faults"]} == {"large"}
