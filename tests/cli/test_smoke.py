"""`lossgate smoke` and `lossgate targets`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Lossgate


def test_a_sound_adapter_passes_whatever_the_faults(lossgate: Lossgate) -> None:
    """The printed formula is wrong for grpo, and yet its adapter is sound."""
    result = lossgate("smoke", "printed:loss", "--loss-type", "grpo")
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("  ok  ") == 3


def test_an_ignored_input_is_named(lossgate: Lossgate, folder: Path) -> None:
    """A function that takes epsilon_low and never reads it does not pass."""
    text = (folder / "printed.py").read_text()
    (folder / "deaf.py").write_text(text.replace("1 - epsilon_low", "0.8"))
    result = lossgate("smoke", "deaf:loss", "--loss-type", "bnpo")
    assert result.returncode == 1
    assert "no reaction to epsilon_low" in result.stdout


def test_a_changed_input_is_named(lossgate: Lossgate, folder: Path) -> None:
    """A function that writes into its inputs is told so."""
    text = (folder / "printed.py").read_text()
    (folder / "writer.py").write_text(
        text.replace("log_ratio = logps", "advantages.mul_(2)\n    log_ratio = logps")
    )
    result = lossgate("smoke", "writer:loss", "--loss-type", "bnpo")
    assert result.returncode == 1
    assert "changed its input 'advantages'" in result.stdout


def test_targets_lists_what_can_be_tested(lossgate: Lossgate) -> None:
    """TRL is opened to see what it supports; patterns are explained."""
    result = lossgate("targets", "--format", "json")
    assert result.returncode == 0
    entries = {entry["name"]: entry for entry in json.loads(result.stdout)["targets"]}
    assert entries["trl"]["loads"] is True
    assert set(entries["trl"]["supports"]["loss_types"]) >= {"grpo", "bnpo", "dr_grpo", "dapo", "cispo"}
    assert "module:function" in entries


def test_targets_says_why_one_does_not_load(lossgate: Lossgate, tmp_path: Path) -> None:
    """An interpreter that lacks what a target needs is no error of the verb."""
    result = lossgate("targets", "--python", tmp_path / "absent")
    assert result.returncode == 0
    assert "does not load here: there is no interpreter at" in result.stdout
