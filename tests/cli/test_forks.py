"""Forks: a changed copy of TRL in an environment of its own, and a trainer class in a repository of its own."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
import venv
from pathlib import Path

import pytest

from reports.run import Run
from tests.cli.conftest import Lossgate

ASKED = (
    "--loss-type",
    "grpo",
    "--level",
    "token",
    "--beta",
    "0.04",
    "--dtype",
    "float32",
    "--examples",
    "1",
    "-q",
)

FAULTS = {
    "KL subtracted": ("+ self.beta *", "- self.beta *"),
    "pessimism turned round": ("-torch.min(", "-torch.max("),
}


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An interpreter's folder: the packages of this one, with a TRL of its own before them."""
    place = tmp_path / "environment"
    venv.EnvBuilder(with_pip=False).create(place)
    (packages(place) / "those_of_the_other.pth").write_text(sysconfig.get_path("purelib"))
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(
        Path(spec.origin).parent, packages(place) / "trl", ignore=shutil.ignore_patterns("__pycache__")
    )
    return place


def packages(environment: Path) -> Path:
    """The folder that an environment's packages are installed into."""
    return Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))


def installed(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with what is in it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_changed_copy_in_an_environment_of_its_own(environment: Path, lossgate: Lossgate, folder: Path) -> None:
    """A copy of TRL passes, and fails with a character or two of its loss changed; nothing is installed."""
    own, ours = packages(environment), Path(sysconfig.get_path("purelib"))
    trainer = own / "trl" / "trainer" / "grpo_trainer.py"
    text = trainer.read_text()
    ours_before = sorted(path.name for path in ours.iterdir())

    def judged(out: str) -> int:
        before = installed(own)
        python = environment / "bin" / "python"
        result = lossgate("run", "trl", "--python", python, *ASKED, "--out", out, LOSSGATE_CACHE="cache")
        assert installed(own) == before
        return result.returncode

    assert judged("copy") == 0
    (facts,) = Run.load(folder / "copy").facts["targets"].values()
    assert facts["versions"]["from"] == str(own / "trl")
    for fault, (right, wrong) in FAULTS.items():
        assert text.count(right) == 1
        trainer.write_text(text.replace(right, wrong))
        assert judged(fault) == 1, fault
    assert sorted(path.name for path in ours.iterdir()) == ours_before
    assert not (folder / "cache").exists()


TRAINER = '''
import torch
from trl import GRPOTrainer


class ForkTrainer(GRPOTrainer):
    """Logs how long completions are."""

    def _compute_loss(self, model, inputs):
        mask = inputs["completion_mask"]
        self._metrics["train"]["fork/length"].append(mask.sum(-1).float().mean().item())
        return super()._compute_loss(model, inputs)
'''


def test_a_trainer_class_in_a_repository_of_its_own(lossgate: Lossgate, folder: Path) -> None:
    """It is judged from its repository's root, whose `cases` and `reports` are not ours; a fault in it fails."""
    for name in ("cases", "oracles", "harness", "reports"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(
            f"raise RuntimeError('the {name} of the fork, not of lossgate')"
        )
    (folder / "my_fork").mkdir()
    trainer = folder / "my_fork" / "trainer.py"
    trainer.write_text(TRAINER)
    name = "my_fork.trainer:ForkTrainer"

    result = lossgate("run", name, *ASKED, "--out", "sound")
    assert result.returncode == 0, result.stdout + result.stderr
    run = Run.load(folder / "sound")
    (facts,) = run.facts["targets"].values()
    assert list(run.facts["targets"]) == [name]
    assert facts["versions"]["from"] == str(folder / "my_fork")
    assert "trl" in facts["versions"]
    assert facts["replaced"][0].startswith("ForkTrainer._get_per_token_logps")

    # Every position counts, padding too.
    trainer.write_text(TRAINER.replace("return super()", "mask.fill_(1)\n        return super()"))
    result = lossgate("run", name, *ASKED, "--out", "faulty")
    assert result.returncode == 1, result.stdout + result.stderr
    messages = Run.load(folder / "faulty").rows["message"]
    assert messages.str.contains("gradient at a masked position").any()
