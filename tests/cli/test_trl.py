"""TRL itself, end to end: the real trainer conforms in every cell."""

from __future__ import annotations

from pathlib import Path

from reports.run import Run
from tests.cli.conftest import Lossgate

KNOWN = Path(__file__).parents[2] / "lossgate.toml"


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
    # Only what TRL has not, other estimators of KL, and what it refuses: vespo with ratios per completion.
    refused = run.rows[(run.rows["verdict"] == "unsupported") & ~run.rows["message"].str.contains("estimator")]
    assert set(refused["loss_type"]) == {"vespo"}
    assert run.facts["missing_regions"] == {}
    (facts,) = run.facts["targets"].values()
    assert facts["replaced"], "the report must say what was replaced in TRL"
    (padding,) = run.facts["padding"].values()
    assert padding["finite"]["leaked"] == 0
