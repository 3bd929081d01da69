"""`lossgate explain`: a stored case token by token, with the reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Lossgate

FEW = ("--level", "token", "--dtype", "float32", "--examples", "1", "-q", "--format", "json")


def witness(lossgate: Lossgate, folder: Path, target: str, loss_type: str, beta: str) -> str:
    """The id of the witness of the one failing cell of a run."""
    result = lossgate("run", target, *FEW, "--loss-type", loss_type, "--beta", beta, "--out", folder / "run")
    assert result.returncode == 1, result.stderr
    (cell,) = json.loads(result.stdout)["cells"]
    return f"{folder / 'run' / 'cases' / cell['witness']}.json"


def test_the_reason_and_a_line_a_token(lossgate: Lossgate, tmp_path: Path) -> None:
    """The reason is the one that all cases of the cell have; expected and got stand side by side."""
    result = lossgate("explain", witness(lossgate, tmp_path, "fault:kl_sign", "grpo", "0.04"))
    assert result.returncode == 1, result.stderr
    assert "reason, from all cases of the cell: KL term with the wrong sign" in result.stdout
    header = next(line for line in result.stdout.splitlines() if line.lstrip().startswith("row"))
    assert {"logp", "ref", "advantage", "ratio", "policy", "kl", "weight", "expected", "got", "bound"} <= set(
        header.split()
    )
    assert "loss = sum of weight x (policy + beta x kl)" in result.stdout


def test_a_gradient_at_a_masked_position_is_shown(lossgate: Lossgate, tmp_path: Path) -> None:
    """The table is of tokens; what leaks beside them has lines of its own."""
    result = lossgate("explain", witness(lossgate, tmp_path, "fault:masked_too", "bnpo", "0"))
    assert "masked: row " in result.stdout
    assert "expected 0, got" in result.stdout


@pytest.mark.parametrize(
    ("target", "loss_type", "shown"),
    [
        ("fault:sapo_one_tau", "sapo", "sapo_temperature_pos"),
        ("fault:vespo_signs_swapped", "vespo", "vespo_k_pos"),
        ("fault:no_clip", "grpo", "epsilon 0.2"),
    ],
)
def test_the_parameters_of_the_loss_are_shown(
    lossgate: Lossgate, tmp_path: Path, target: str, loss_type: str, shown: str
) -> None:
    """Those that the loss reads, not those of others."""
    assert shown in lossgate("explain", witness(lossgate, tmp_path, target, loss_type, "0")).stdout


def test_a_case_that_there_is_not(lossgate: Lossgate) -> None:
    """One sentence, exit 2."""
    result = lossgate("explain", "0123456789ab", "fault:none")
    assert result.returncode == 2
    assert "no case '0123456789ab'" in result.stderr
