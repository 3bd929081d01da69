"""verl, a release with its engine and one before: each loss is asked as verl means it to be asked.

A mistake of the adapter would show as a divergence; the few there are, are verl's and are named here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cases.conventions import CispoClip, EmptyRows, SequenceGradient
from cases.descriptions import Advantage, Description, Importance, Layout, Ratio, Row
from cases.dtypes import FLOAT64
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import KLEstimator, Level, LossSpec, LossType
from cases.split import Mode, Split
from harness.asking import Contestant
from harness.client import TargetUnavailable, WorkerClient
from tests.worker.fetched import departures, opened

CLIPPED = ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")
ROWS = (
    Row(Layout.PREFIX, 2, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
    Row(Layout.FULL, 1, (Ratio.FAR_ABOVE, Ratio.BELOW_LOW), advantage=Advantage.NEGATIVE),
)
PLAIN = Description(ROWS, columns=3, seed=1)


@pytest.fixture(scope="module")
def new() -> Iterator[Contestant]:
    """The release whose engine tells a micro-batch of its step."""
    with opened("verl==0.9.1") as one:
        yield one


@pytest.fixture(scope="module")
def old() -> Iterator[Contestant]:
    """The release whose actor worker takes the mean of every micro-batch by itself."""
    with opened("verl==0.6.0") as one:
        yield one


def message(one: Contestant, loss_type: str, description: Description = PLAIN, level: str = "token") -> str:
    """What it says to a case in float64, "" where it answers."""
    batch = realise(description, FLOAT64, Level(level))
    outcome = one.client.ask(case_for(description, batch, LossType(loss_type), Level(level), 0.04))
    return outcome.message


@pytest.mark.parametrize(
    ("loss_type", "level"),
    [*((loss_type, level) for loss_type in CLIPPED for level in Level), ("cispo", "token"), ("sapo", "token")],
)
def test_every_loss_of_the_engine_conforms(new: Contestant, loss_type: str, level: str) -> None:
    """With KL term, at every boundary and in every split; but for a batch without tokens in a token mean."""
    conforming, departing = departures(new, "float64", loss_type, level, 0.04)
    assert conforming > 60
    token_mean = loss_type in ("bnpo", "dapo", "cispo")
    assert {"batch_empty" in regions_of(case) for case in departing} == ({True} if token_mean else set())


def test_gmpo_is_as_often_as_there_are_accumulation_steps(new: Contestant) -> None:
    """The one other departure: a micro-batch takes the mean of its rows, and nothing divides by their number."""
    conforming, departing = departures(new, "float32", "gmpo", "token", 0.0)
    assert conforming > 60
    assert departing
    assert all(case.split.accumulation_steps > 1 for case in departing)
    batch = replace(departing[0].batch, ref_logps=None)
    whole, split = (
        new.client.ask(replace(departing[0], batch=batch, split=split)).loss
        for split in (Split(), Split(accumulation_steps=batch.rows, steps_per_generation=batch.rows))
    )
    assert split == pytest.approx(batch.rows * whole, rel=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_conforms(new: Contestant, dtype: str) -> None:
    """The same calls hold in every dtype."""
    conforming, departing = departures(new, dtype, "grpo", "token", 0.04)
    assert conforming > 60
    assert departing == []


@pytest.mark.parametrize(
    ("loss_type", "level", "where"),
    [
        ("grpo", "token", "row_empty batch_empty"),
        ("grpo", "sequence", "row_empty batch_empty"),
        ("bnpo", "token", ""),
        ("luspo", "token", ""),
        ("gmpo", "token", "row_empty batch_empty"),
    ],
)
def test_the_release_before_the_engine_conforms(old: Contestant, loss_type: str, level: str, where: str) -> None:
    """Put together as its actor worker does it; a mean over the tokens of a completion without any is NaN."""
    conforming, departing = departures(old, "float64", loss_type, level, 0.04)
    assert conforming > 40
    assert bool(departing) is bool(where)
    assert all(set(where.split()) & set(regions_of(case)) for case in departing)


def test_dr_grpo_of_the_old_release_lacks_the_mean_over_completions(old: Contestant) -> None:
    """Its sum is divided by the width of the batch and by nothing else: one completion conforms, two do not."""
    _, departing = departures(old, "float64", "dr_grpo", "token", 0.04)
    assert departing
    assert all(case.batch.rows > 1 for case in departing)


def test_the_facts_of_the_engine(new: Contestant) -> None:
    """Conventions are those of verl's default configuration; what was replaced is said."""
    facts = new.facts
    assert facts.label == "verl 0.9.1"
    assert set(facts.supports.loss_types) == {*CLIPPED, "cispo", "sapo", "gmpo"}
    assert {"importance_ratio", "split", "token_advantages"} <= set(facts.supports.options)
    assert not {"delta", "off_policy_mask", "k3_bias_corrected"} & set(facts.supports.options)
    token = facts.conventions_for(LossSpec(LossType.GRPO))
    assert (token.dual_clip, token.log_ratio_bounds, token.kl_bound) == (3.0, (-20.0, 20.0), 10.0)
    assert token.empty_rows is EmptyRows.COUNTED
    sequence = facts.conventions_for(LossSpec(LossType.DAPO, Level.SEQUENCE))
    assert (sequence.dual_clip, sequence.log_ratio_bounds) == (None, (None, 10.0))
    assert sequence.sequence_gradient is SequenceGradient.TOKEN
    assert facts.conventions_for(LossSpec(LossType.CISPO)).cispo_clip is CispoClip.TWO_SIDED
    assert any("ppo_loss is given the case's logps" in replaced for replaced in facts.replaced)


def test_the_facts_of_the_old_release(old: Contestant) -> None:
    """It has fewer losses, no split, and its policy loss and KL term are added up by the adapter."""
    facts = old.facts
    assert set(facts.supports.loss_types) == {*CLIPPED, "gmpo"}
    assert "split" not in facts.supports.options
    assert facts.conventions.empty_rows is EmptyRows.COUNTED
    assert any("DataParallelPPOActor" in replaced for replaced in facts.replaced)


def test_what_the_engine_lacks_is_refused(new: Contestant) -> None:
    """A sentence for each, in place of an answer to another question."""
    halves = replace(PLAIN, split=Split(ranks=2))
    assert message(new, "cispo", level="sequence") == "verl's cispo loss has no sequence level"
    assert "geometric mean" in message(new, "gmpo", replace(PLAIN, importance=Importance.PER_TOKEN))
    assert "over a whole step" in message(new, "bnpo", halves)
    assert "in evaluation" in message(new, "dapo", replace(halves, split=Split(ranks=2, mode=Mode.EVAL)))
    corrected = replace(PLAIN, kl_estimator=KLEstimator.K3_BIAS_CORRECTED)
    assert "k3_bias_corrected is not supported" in message(new, "grpo", corrected)
    assert message(new, "dapo", halves) == ""


def test_what_the_old_release_lacks_is_refused(old: Contestant) -> None:
    """Its gspo has one aggregation, its dr_grpo no longest completion."""
    assert "whatever its loss_agg_mode" in message(old, "luspo", level="sequence")
    assert "width of the batch" in message(old, "dr_grpo", replace(PLAIN, seed=1, columns=7))
    assert "'cispo' is not supported" in message(old, "cispo")


def failure(path: Path) -> TargetUnavailable:
    """How verl fails to open with a folder laid over this interpreter."""
    with pytest.raises(TargetUnavailable) as caught, WorkerClient(sys.executable, "verl", path=(path,)):
        pass
    return caught.value


def test_where_there_is_no_verl(tmp_path: Path) -> None:
    """One sentence, and the command that installs it."""
    (tmp_path / "verl.py").write_text("raise ModuleNotFoundError(\"No module named 'verl'\", name='verl')")
    error = failure(tmp_path)
    assert (error.kind, str(error)) == ("not_installed", "verl is not installed")
    assert error.hint == f"{sys.executable} -m pip install verl"


def test_a_verl_of_another_interface(tmp_path: Path) -> None:
    """One sentence names the module that is looked for; a companion that is missing is named too."""
    package = tmp_path / "verl"
    package.mkdir()
    (package / "__init__.py").write_text("")
    error = failure(tmp_path)
    assert (error.kind, str(error)) == ("broken", "verl unknown has another interface: it has no verl.utils")
    (package / "__init__.py").write_text("import tensordict_of_nobody")
    assert str(failure(tmp_path)) == "verl unknown needs tensordict_of_nobody, which is not installed"
