"""`lossgate compare`: what became better or worse from one run, or one target, to another."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Lossgate

CELL = ("--loss-type", "grpo", "--level", "token", "--beta", "0.04", "--dtype", "float32", "--examples", "1")

_RUNS = (
    ("none", "none", 0),
    ("kl_sign", "kl_sign", 0),
    ("beta_1pct", "beta_1pct", 0),
    ("seed_7", "none", 7),
)
"""Folder, fault and seed of each run."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of each of a few targets, on the same cases, and one on others."""
    folder = tmp_path_factory.mktemp("runs")
    for name, target, seed in _RUNS:
        command = [COMMAND, "run", f"fault:{target}", *CELL, "-q", "--seed", str(seed), "--out", folder / name]
        assert subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode in (0, 1)
    return {path.name: path for path in folder.iterdir()}


def test_a_new_divergence_is_a_regression(lossgate: Lossgate, runs: dict[str, Path]) -> None:
    """Exit 1, under its heading, with its signature and how many cases show it."""
    result = lossgate("compare", runs["none"], runs["kl_sign"])
    assert result.returncode == 1, result.stderr
    assert "New divergences" in result.stdout
    assert "grpo token, beta 0.04, float32" in result.stdout
    assert "now KL term with the wrong sign" in result.stdout
    assert result.stdout.rstrip().endswith("Regression: 1 cell does worse in fault:kl_sign.")


def test_what_is_fixed_is_none(lossgate: Lossgate, runs: dict[str, Path]) -> None:
    """Exit 0, with what it was."""
    result = lossgate("compare", runs["kl_sign"], runs["none"])
    assert result.returncode == 0, result.stderr
    assert "Fixed" in result.stdout
    assert "was KL term with the wrong sign" in result.stdout
    assert result.stdout.rstrip().endswith("No regression.")


def test_another_divergence_than_before(lossgate: Lossgate, runs: dict[str, Path]) -> None:
    """Both sides are told, and it is a regression."""
    result = lossgate("compare", runs["kl_sign"], runs["beta_1pct"], "--format", "json")
    assert result.returncode == 1, result.stderr
    found = json.loads(result.stdout)
    assert found["format"] == "lossgate-comparison/1"
    (cell,) = found["cells"]
    assert cell["change"] == "changed"
    assert cell["regression"] is True
    assert [cell[side]["signature"] for side in ("base", "head")] == [
        "KL term with the wrong sign",
        "KL term x 1.01",
    ]
    assert 0 < cell["head"]["failing"] <= cell["shared"]


def test_the_same_divergence_is_none(lossgate: Lossgate, runs: dict[str, Path]) -> None:
    """It stands under a heading of its own, and does not fail."""
    result = lossgate("compare", runs["kl_sign"], runs["kl_sign"], "--format", "markdown")
    assert result.returncode == 0, result.stderr
    assert "### Diverges as before" in result.stdout


def test_other_cases_are_refused(lossgate: Lossgate, runs: dict[str, Path]) -> None:
    """Runs of other seeds are compared only where it is asked for, on the cases that both have."""
    result = lossgate("compare", runs["none"], runs["seed_7"])
    assert result.returncode == 2
    assert "seed 0 here, 7 there" in result.stderr
    assert "--anyway" in result.stderr
    anyway = lossgate("compare", runs["none"], runs["seed_7"], "--anyway")
    assert anyway.returncode == 4, "no case is in both"


def test_a_run_that_was_cut_short_is_refused(lossgate: Lossgate, runs: dict[str, Path], tmp_path: Path) -> None:
    """What it lacks would pass for fixed."""
    cut = tmp_path / "cut"
    cut.mkdir()
    for path in runs["kl_sign"].rglob("*"):
        if path.is_file():
            (cut / path.relative_to(runs["kl_sign"])).parent.mkdir(parents=True, exist_ok=True)
            (cut / path.relative_to(runs["kl_sign"])).write_bytes(path.read_bytes())
    facts = json.loads((cut / "run.json").read_text())
    (cut / "run.json").write_text(json.dumps({**facts, "complete": False}))
    result = lossgate("compare", cut, runs["none"])
    assert result.returncode == 2
    assert "did not come to its end" in result.stderr


def test_a_run_and_a_target(lossgate: Lossgate, runs: dict[str, Path]) -> None:
    """Two of a kind are taken, and no target twice."""
    mixed = lossgate("compare", runs["none"], "fault:kl_sign")
    assert mixed.returncode == 2
    assert "give two runs, or two targets" in mixed.stderr
    assert lossgate("compare", "fault:none", "fault:none").returncode == 2


def test_two_targets_are_judged_now(lossgate: Lossgate, tmp_path: Path) -> None:
    """On the same cases, in one run that stays on disk; what is expected is no regression."""
    config = tmp_path / "expect.toml"
    config.write_text('[[expect]]\ntarget = "fault:kl_sign"\nreason = "on purpose"\n')
    sides = ("fault:none", "fault:kl_sign", *CELL, "-q", "--out")
    bare = lossgate("compare", *sides, tmp_path / "bare")
    assert bare.returncode == 1, bare.stderr
    assert (tmp_path / "bare" / "run.json").is_file()
    expected = lossgate("compare", *sides, tmp_path / "expected", "--config", config)
    assert expected.returncode == 0, expected.stderr
    assert "now an expected one (168 of 175 cases" in expected.stdout
