"""Trainer classes as targets, `module:Trainer`: subclasses of TRL's and copies, with settings of their own."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from reports.run import Run
from tests.cli.conftest import Lossgate

TRAINERS = '''
from dataclasses import dataclass

from transformers import TrainingArguments
from trl import GRPOConfig, GRPOTrainer


@dataclass
class OwnConfig(GRPOConfig):
    scale: float = 1.0


class Scaling(GRPOTrainer):
    """Its loss reads what only its own configuration has."""

    def _compute_loss(self, model, inputs):
        return self.args.scale * super()._compute_loss(model, inputs)


class Annotated(Scaling):
    def __init__(self, model, reward_funcs, args: "OwnConfig | None" = None, **others):
        super().__init__(model, reward_funcs, args, **others)


class Unannotated(Scaling):
    def __init__(self, model, reward_funcs, args=None, **others):
        super().__init__(model, reward_funcs, args, **others)


class Forwarding(Scaling):
    def __init__(self, *args, **others):
        super().__init__(*args, **others)


class Demanding(GRPOTrainer):
    def __init__(self, judge, *args, verbosity, **others):
        super().__init__(*args, **others)


class NoTrainer:
    def __init__(self, args: OwnConfig, **others):
        self.args = args

    def compute_loss(self, model, inputs):
        return None
'''


def test_trainer_classes_are_made_and_judged_as_trl_is(lossgate: Lossgate, folder: Path) -> None:
    """Each is made with its own configuration class; a copy of TRL under another name is one too."""
    (folder / "trainers.py").write_text(TRAINERS)
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, folder / "vendored")
    names = [f"trainers:{name}" for name in ("Annotated", "Unannotated", "Forwarding")]
    names.append("vendored.trainer.grpo_trainer:GRPOTrainer")
    cells = ("--loss-type", "dapo", "--level", "token", "--beta", "0.04", "--dtype", "float32", "--examples", "1")
    result = lossgate("run", *names, *cells, "--out", "out", "-q")
    assert result.returncode == 0, result.stdout + result.stderr
    run = Run.load(folder / "out")
    targets = run.facts["targets"]
    assert list(targets) == names
    # None of them takes less than another.
    refused = run.rows[run.rows["verdict"] == "unsupported"].groupby("target")["case_id"].agg(frozenset)
    assert len(set(refused)) <= 1
    assert targets[names[3]]["versions"]["from"] == str(folder / "vendored")


def test_a_constructor_that_requires_more_is_told(lossgate: Lossgate, folder: Path) -> None:
    """One sentence says what it requires that no trainer of TRL's does, and how to go on."""
    (folder / "trainers.py").write_text(TRAINERS)
    result = lossgate("smoke", "trainers:Demanding")
    assert result.returncode == 2
    assert "trainers:Demanding cannot be made: its constructor also requires judge, verbosity" in result.stderr
    assert "give the rest a default" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_class_of_another_kind_is_told(lossgate: Lossgate, folder: Path) -> None:
    """A compute_loss alone does not make a trainer."""
    (folder / "trainers.py").write_text(TRAINERS)
    result = lossgate("smoke", "trainers:NoTrainer")
    assert result.returncode == 3
    said = "trainers:NoTrainer is no trainer after TRL's GRPOTrainer: it has no model, accelerator, beta, _metrics"
    assert result.stderr.strip() == f"lossgate: {said}"
