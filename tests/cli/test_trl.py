"""TRL itself, end to end: the real trainer conforms in every cell, and a copy with a fault in it does not."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from reports.run import Run
from tests.cli.conftest import Lossgate

KNOWN = Path(__file__).parents[2] / "lossgate.toml"
FAULTS = {
    "KL subtracted": ("+ self.beta *", "- self.beta *"),
    "pessimism turned round": ("-torch.min(", "-torch.max("),
}


def test_trl_conforms_in_every_cell(lossgate: Lossgate, folder: Path) -> None:
    """Eight losses, two levels, beta 0 and 0.04, four dtypes: no cell fails or is left out, every region is met.

    What is known of TRL in float64 stays visible.
    """
    result = lossgate(
        "run",
        "trl",
        *("--dtype", "float64,float32,bfloat16,float16", "--examples", "12", "--seed", "3"),
        *("--out", "out", "--config", KNOWN, "--jobs", "2", "-q"),
    )
    assert result.returncode == 0, result.stdout
    run = Run.load(folder / "out")
    cells = run.rows.groupby(["loss_type", "level", "beta", "dtype"])
    assert len(cells) == 8 * 2 * 2 * 4
    assert cells["case_id"].nunique().min() >= 64
    assert set(run.rows["verdict"]) == {"conforms", "overflow", "known", "unsupported"}
    known = run.rows[run.rows["verdict"] == "known"]
    assert set(known["dtype"]) == {"float64"}
    assert set(known["loss_type"]) == {"sapo", "dapo", "cispo", "vespo"}
    # Only what TRL itself refuses: importance ratios per completion in vespo.
    refused = run.rows[run.rows["verdict"] == "unsupported"]
    assert set(refused["loss_type"]) == {"vespo"}
    assert run.facts["missing_regions"] == {}
    (facts,) = run.facts["targets"].values()
    assert facts["replaced"], "the report must say what was replaced in TRL"
    (padding,) = run.facts["padding"].values()
    assert padding["finite"]["leaked"] == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fork_with_one_fault_fails(fault: str, lossgate: Lossgate, folder: Path) -> None:
    """The installed TRL, copied, with a character or two of its loss changed: the gate fails."""
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    fork = shutil.copytree(Path(spec.origin).parent, folder / "fork" / "trl")
    trainer = fork / "trainer" / "grpo_trainer.py"
    text = trainer.read_text()
    right, wrong = FAULTS[fault]
    assert text.count(right) == 1
    trainer.write_text(text.replace(right, wrong))
    arguments = ("--loss-type", "grpo", "--level", "token", "--dtype", "float32", "--examples", "1", "-q")
    result = lossgate("run", "trl", *arguments, PYTHONPATH=str(fork.parent))
    assert result.returncode == 1, result.stdout
    assert "DIVERGES" in result.stdout
