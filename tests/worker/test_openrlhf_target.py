"""OpenRLHF, with and without totals of a step: each loss is asked as its actor means it to be asked.

A mistake of the adapter would show as a divergence; the few there are, are OpenRLHF's and are named here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cases.conventions import EmptyRows, KLAggregation
from cases.descriptions import Advantage, Delta, Description, Importance, Layout, Ratio, Row
from cases.dtypes import DTYPES
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import KLEstimator, Level, LossSpec, LossType
from cases.split import Mode, Split
from harness.asking import Contestant
from harness.client import TargetUnavailable, WorkerClient
from tests.worker.fetched import departures, opened

CELLS = (("grpo", "token"), ("grpo", "sequence"), ("bnpo", "token"), ("dapo", "token"))
ROWS = (
    Row(Layout.PREFIX, 2, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
    Row(Layout.FULL, 1, (Ratio.FAR_ABOVE, Ratio.BELOW_LOW), advantage=Advantage.NEGATIVE),
)
PLAIN = Description(ROWS, columns=3, seed=1)


@pytest.fixture(scope="module")
def new() -> Iterator[Contestant]:
    """The release that tells a micro-batch the totals of its step."""
    with opened("openrlhf==0.11.2") as one:
        yield one


@pytest.fixture(scope="module")
def old() -> Iterator[Contestant]:
    """The release whose micro-batches are taken by themselves."""
    with opened("openrlhf==0.10.2") as one:
        yield one


def message(
    one: Contestant, loss_type: str, description: Description = PLAIN, level: str = "token", dtype: str = "float32"
) -> str:
    """What it says to a case with a KL term, "" where it answers."""
    batch = realise(description, DTYPES[dtype], Level(level))
    outcome = one.client.ask(case_for(description, batch, LossType(loss_type), Level(level), 0.04))
    return outcome.message


@pytest.mark.parametrize(("loss_type", "level"), CELLS)
@pytest.mark.parametrize(("dtype", "beta"), [("float64", 0.0), ("float32", 0.04), ("bfloat16", 0.04)])
def test_every_loss_conforms(new: Contestant, dtype: str, beta: float, loss_type: str, level: str) -> None:
    """At every boundary, in every split and with each KL estimator; but for a batch without tokens."""
    conforming, departing = departures(new, dtype, loss_type, level, beta)
    assert conforming > 60
    assert departing
    assert all("batch_empty" in regions_of(case) for case in departing)


@pytest.mark.parametrize(
    ("loss_type", "level", "where"),
    [
        ("grpo", "token", {"batch_empty", "row_empty"}),
        ("grpo", "sequence", {"batch_empty", "row_empty"}),
        ("bnpo", "token", {"batch_empty"}),
    ],
)
def test_the_older_release_conforms(old: Contestant, loss_type: str, level: str, where: set[str]) -> None:
    """It clips no log-ratio and counts every completion; a mean over the tokens of one without any is NaN."""
    conforming, departing = departures(old, "float32", loss_type, level, 0.04)
    assert conforming > 50
    assert {region for case in departing for region in where & set(regions_of(case))} == where
    assert all(where & set(regions_of(case)) for case in departing)


def test_the_facts_of_the_newer_release(new: Contestant) -> None:
    """Conventions are those of its defaults; what was replaced is said."""
    facts = new.facts
    assert facts.label == "openrlhf 0.11.2"
    assert facts.supports.loss_types == ("grpo", "bnpo", "dapo")
    assert {"k1", "k2", "delta", "split"} <= set(facts.supports.options)
    assert not {"importance_ratio", "off_policy_mask", "k3_bias_corrected"} & set(facts.supports.options)
    token = facts.conventions_for(LossSpec(LossType.GRPO))
    assert (token.log_ratio_bounds, token.kl_bound, token.dual_clip) == ((-20.0, 20.0), 10.0, None)
    assert (token.empty_rows, token.kl_aggregation) == (EmptyRows.NOT_COUNTED, KLAggregation.TOKEN_MEAN)
    assert facts.conventions_for(LossSpec(LossType.GRPO, Level.SEQUENCE)).log_ratio_bounds == (None, None)
    assert any("training_step" in replaced for replaced in facts.replaced)
    assert any("DeepSpeed's part" in replaced for replaced in facts.replaced)


def test_the_facts_of_the_older_release(old: Contestant) -> None:
    """No split, no bound on the log-ratio, and empty completions count."""
    facts = old.facts
    assert "split" not in facts.supports.options
    conventions = facts.conventions_for(LossSpec(LossType.BNPO))
    assert (conventions.log_ratio_bounds, conventions.empty_rows) == ((None, None), EmptyRows.COUNTED)


def test_what_it_lacks_is_refused(new: Contestant) -> None:
    """A sentence for each, in place of an answer to another question."""
    halves = replace(PLAIN, split=Split(ranks=2))
    assert "'cispo' is not supported" in message(new, "cispo")
    assert "which is grpo" in message(new, "dapo", level="sequence")
    assert "in float32" in message(new, "grpo", dtype="float64")
    assert "over a whole step" in message(new, "bnpo", halves)
    assert "in evaluation" in message(new, "dapo", replace(halves, split=Split(ranks=2, mode=Mode.EVAL)))
    assert "no bound below" in message(new, "grpo", replace(PLAIN, delta=Delta.BELOW))
    assert "importance ratio" in message(new, "grpo", replace(PLAIN, importance=Importance.PER_TOKEN))
    for description in (
        halves,
        replace(PLAIN, delta=Delta.ABOVE),
        replace(PLAIN, kl_estimator=KLEstimator.K1),
        replace(PLAIN, kl_estimator=KLEstimator.K2),
    ):
        assert message(new, "dapo", description) == ""


def failure(path: Path) -> TargetUnavailable:
    """How OpenRLHF fails to open with a folder laid over this interpreter."""
    with pytest.raises(TargetUnavailable) as caught, WorkerClient(sys.executable, "openrlhf", path=(path,)):
        pass
    return caught.value


def test_where_there_is_no_openrlhf(tmp_path: Path) -> None:
    """One sentence, and the command that installs it."""
    source = "raise ModuleNotFoundError(\"No module named 'openrlhf'\", name='openrlhf')"
    (tmp_path / "openrlhf.py").write_text(source)
    error = failure(tmp_path)
    assert (error.kind, str(error)) == ("not_installed", "openrlhf is not installed")
    assert error.hint == f"{sys.executable} -m pip install openrlhf"


def test_an_openrlhf_of_another_interface(tmp_path: Path) -> None:
    """One sentence names what is looked for: a module, then a parameter."""
    models = tmp_path / "openrlhf" / "models"
    models.mkdir(parents=True)
    for package in (models.parent, models):
        (package / "__init__.py").write_text("")
    error = failure(tmp_path)
    wanted = "openrlhf unknown has another interface: it has no openrlhf.models.loss"
    assert (error.kind, str(error)) == ("broken", wanted)
    (models / "loss.py").write_text("class PolicyLoss:\n    def __init__(self, clip_eps): pass\n")
    (models / "utils.py").write_text("def masked_mean(): pass\ndef compute_approx_kl(): pass\n")
    assert "its PolicyLoss takes no clip_eps_low, clip_eps_high" in str(failure(tmp_path))
