"""`lossgate identify`: the formula that a target computes, by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLE, Lossgate

NAMED = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")


def test_every_loss_of_trl_is_what_its_name_says(lossgate: Lossgate) -> None:
    """All eight at both levels, each by at most three probes, and nothing else explains them."""
    result = lossgate("identify", "trl", "--format", "json")
    assert result.returncode == 0, result.stdout
    losses = json.loads(result.stdout)["losses"]
    assert {(one["loss_type"], one["level"]) for one in losses} == {
        (name, level) for name in NAMED for level in ("token", "sequence")
    }
    for one in losses:
        assert one["as_named"], one
        assert one["probes"] <= 3
        assert len(one["computes"]) == 1, one
        assert one["computes"][0]["name"].split(" ")[0] == one["loss_type"]


def test_the_formula_printed_for_grpo_is_bnpo(lossgate: Lossgate, folder: Path) -> None:
    """PR 3395: bnpo, the same as dapo in one process; not grpo."""
    (folder / "printed.py").write_text(EXAMPLE.read_text())
    result = lossgate("identify", "printed:loss", "--loss-type", "grpo", "--level", "token")
    assert result.returncode == 1
    assert "computes bnpo, not grpo" in result.stdout
    assert "(bnpo) is that over the step (dapo)" in result.stdout


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("fault:no_clip", "surrogate without a clip"),
        ("fault:kl_detached", "k3 without a gradient"),
        ("fault:k2", "k2 inside the token sum"),
        ("fault:seq_level", "computes grpo at sequence level (GSPO)"),
        ("fault:eps_swapped", "epsilon_low and epsilon_high exchanged"),
    ],
)
def test_one_choice_otherwise_is_found(fault: str, words: str, lossgate: Lossgate) -> None:
    """The whole catalogue holds what is one choice away from a named loss."""
    result = lossgate("identify", fault, "--loss-type", "grpo", "--level", "token", "--whole")
    assert result.returncode == 1
    assert words in result.stdout


def test_an_unknown_formula_is_said_to_be_none(lossgate: Lossgate, folder: Path) -> None:
    """2^x in place of e^x is in no catalogue: the nearest is named, and where it departs."""
    text = EXAMPLE.read_text().replace("torch.exp(log_ratio)", "torch.exp2(log_ratio)")
    (folder / "other.py").write_text(text)
    result = lossgate("identify", "other:loss", "--loss-type", "bnpo", "--level", "token")
    assert result.returncode == 1
    assert "none of" in result.stdout
    assert "nearest:" in result.stdout
    assert "it departs:" in result.stdout
