"""TRL 1.9.0, whose faults are public, by its release's name."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from reports.run import Run
from tests.cli.conftest import Lossgate


def test_the_public_faults_of_an_old_release_are_found(lossgate: Lossgate, folder: Path) -> None:
    """luspo without the mask, and the token count of dapo, cispo and vespo per generation batch; nothing else."""
    result = lossgate(
        "run", "trl==1.9.0", "--offline", "--dtype", "float32", "--examples", "41", "--out", "out", "-q"
    )
    assert result.returncode == 1, result.stderr
    run = Run.load(folder / "out")
    assert list(run.facts["targets"]) == ["trl 1.9.0"]
    failing = run.rows[(run.rows["verdict"] == "diverges") & (run.rows["phase"] != "shrunk")]
    assert set(failing["loss_type"]) == {"luspo", "dapo", "cispo", "vespo"}

    def has(*regions: str) -> pd.Series:
        return failing["regions"].map(lambda found: any(region in found for region in regions))

    luspo = failing["loss_type"] == "luspo"
    assert has("generation_batch")[~luspo].all()
    # At sequence level without KL term a token loss is (B, 1), and no padding can enter it, unless something that
    # is given per token makes it (B, T).
    alone = luspo & (failing["level"] == "sequence") & (failing["beta"] == 0) & (failing["phase"] != "padding")
    assert has("importance_per_token", "advantage_per_token")[alone].all()
    assert luspo.sum() > 20
    assert (~luspo).sum() > 20
