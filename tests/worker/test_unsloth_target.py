"""unsloth-zoo, a release that bounds its KL term and one before: each loss is asked as its trainer asks it.

A mistake of the adapter would show as a divergence; the few there are, are Unsloth's and are named here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cases.conventions import Conventions, WindowTokens
from cases.descriptions import Advantage, Description, Importance, Layout, OffPolicyMask, Ratio, Row
from cases.dtypes import FLOAT64
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import KLEstimator, Level, LossType
from cases.split import Mode, Split
from harness.asking import Contestant
from harness.client import TargetUnavailable, WorkerClient
from tests.worker.fetched import departures, opened

CLIPPED = ("grpo", "bnpo", "dr_grpo", "luspo")
LOSSES = (*CLIPPED, "dapo", "cispo", "sapo")
ROWS = (
    Row(Layout.PREFIX, 2, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
    Row(Layout.FULL, 1, (Ratio.FAR_ABOVE, Ratio.BELOW_LOW), advantage=Advantage.NEGATIVE),
)
PLAIN = Description(ROWS, columns=3, seed=1)


@pytest.fixture(scope="module")
def new() -> Iterator[Contestant]:
    """The release that bounds its KL term and is told of generation batches."""
    with opened("unsloth==2026.10.9") as one:
        yield one


@pytest.fixture(scope="module")
def old() -> Iterator[Contestant]:
    """The release that does neither."""
    with opened("unsloth==2026.8.13") as one:
        yield one


def message(one: Contestant, loss_type: str, description: Description = PLAIN) -> str:
    """What it says to a case in float64, "" where it answers."""
    batch = realise(description, FLOAT64, Level.TOKEN)
    outcome = one.client.ask(case_for(description, batch, LossType(loss_type), Level.TOKEN, 0.04))
    return outcome.message


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("loss_type", LOSSES)
def test_every_loss_conforms(new: Contestant, loss_type: str, level: str) -> None:
    """At every boundary and in every split of a step; float64 but for numbers that are float32 on the way."""
    conforming, departing = departures(new, "float64", loss_type, level, 0.0)
    assert conforming > 40
    rounded = {
        "sapo": "temperature_beyond_float32",
        "dapo": "window_beyond_float32",
        "cispo": "window_beyond_float32",
    }
    assert {rounded.get(loss_type) in regions_of(case) for case in departing} <= {True}
    assert bool(departing) is (loss_type in rounded)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("loss_type", ["dapo", "sapo"])
def test_the_other_dtypes_conform(new: Contestant, dtype: str, loss_type: str) -> None:
    """What is float32 on the way shows in none of them."""
    conforming, departing = departures(new, dtype, loss_type, "token", 0.0)
    assert conforming > 50
    assert departing == []


@pytest.mark.parametrize("level", Level)
def test_the_kl_term_conforms(new: Contestant, level: str) -> None:
    """With its bounds; but the bias-corrected one, whose bound is that of its product with the ratio."""
    conforming, departing = departures(new, "float32", "grpo", level, 0.04)
    assert conforming > 50
    assert all(case.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED for case in departing)
    beyond = replace(PLAIN, kl_estimator=KLEstimator.K3)
    case = case_for(beyond, realise(beyond, FLOAT64, Level(level)), LossType.GRPO, Level(level), 1.0)
    batch = replace(case.batch, ref_logps=case.batch.logps + 4, advantages=np.zeros(2))
    assert new.client.ask(replace(case, batch=batch)).loss == 10.0


@pytest.mark.parametrize(
    ("loss_type", "level", "where"),
    [
        ("grpo", "token", ""),
        ("bnpo", "sequence", ""),
        ("dr_grpo", "token", ""),
        ("dapo", "token", "batch_empty"),
        ("cispo", "token", "batch_empty"),
    ],
)
def test_the_old_release_conforms(old: Contestant, loss_type: str, level: str, where: str) -> None:
    """Its KL term has no bounds; a sum over the tokens of a batch without any is divided by 0."""
    conforming, departing = departures(old, "float32", loss_type, level, 0.04)
    assert conforming > 50
    assert bool(departing) is bool(where)
    assert all(where in regions_of(case) for case in departing)


def test_padding_enters_luspo_of_the_old_release(old: Contestant) -> None:
    """The mean over all positions of length times token loss: it departs only where one is masked."""
    conforming, departing = departures(old, "float32", "luspo", "token", 0.0)
    assert conforming > 20
    assert departing
    assert not any(case.batch.mask.all() for case in departing)


def test_the_facts_of_the_new_release(new: Contestant) -> None:
    """Conventions are what its source gives reasons for; what was replaced is said."""
    facts = new.facts
    assert facts.label == "unsloth 2026.10.9"
    assert set(facts.supports.loss_types) == set(LOSSES)
    options = {"beta", "old_logps", "token_advantages", "delta", "k3_bias_corrected", "split"}
    assert set(facts.supports.options) == options
    window = WindowTokens.GENERATION_AVERAGE
    assert facts.conventions == Conventions(window_tokens=window, kl_bound=10.0, kl_log_ratio_bound=20.0)
    assert not facts.conventions_by_loss
    for word in ("UnslothEfficientGRPO", "start-up", "UNSLOTH_COMPILE_DISABLE", "UNSLOTH_ALLOW_CPU"):
        assert any(word in replaced for replaced in facts.replaced), word


def test_the_facts_of_the_old_release(old: Contestant) -> None:
    """It reads no option for a bias-corrected KL term, and has no convention of its own."""
    facts = old.facts
    assert set(facts.supports.options) == {"beta", "old_logps", "token_advantages", "delta", "split"}
    assert facts.conventions == Conventions()


def test_what_it_lacks_is_refused(new: Contestant, old: Contestant) -> None:
    """A sentence for each, in place of an answer to another question."""
    assert "the weights of vespo from the TRL" in message(new, "vespo")
    assert "'gmpo' is not supported" in message(new, "gmpo")
    assert "mask from the TRL" in message(new, "grpo", replace(PLAIN, off_policy_mask=OffPolicyMask.OLD))
    assert "from sampling_logps" in message(new, "grpo", replace(PLAIN, importance=Importance.PER_TOKEN))
    assert "estimator k1" in message(new, "grpo", replace(PLAIN, kl_estimator=KLEstimator.K1))
    halves = Split(ranks=2)
    assert "not told of evaluation" in message(new, "dapo", replace(PLAIN, split=replace(halves, mode=Mode.EVAL)))
    generation = replace(PLAIN, split=Split(steps_per_generation=2))
    assert "generation batches" in message(old, "dapo", generation)
    for one, split in ((new, halves), (old, halves), (new, generation.split)):
        assert message(one, "dapo", replace(PLAIN, split=split)) == ""


def failure(*path: Path) -> TargetUnavailable:
    """How Unsloth fails to open with folders laid over this interpreter."""
    with pytest.raises(TargetUnavailable) as caught, WorkerClient(sys.executable, "unsloth", path=path):
        pass
    return caught.value


def test_where_there_is_no_unsloth() -> None:
    """One sentence, and the command that installs it."""
    error = failure()
    assert (error.kind, str(error)) == ("not_installed", "unsloth_zoo is not installed")
    assert error.hint == f"{sys.executable} -m pip install unsloth_zoo"


def test_an_unsloth_of_another_interface(tmp_path: Path) -> None:
    """One sentence names what is looked for: a module, a function, a parameter; or says what the library says."""
    package = tmp_path / "unsloth_zoo"
    (package / "temporary_patches").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('the start-up')\n")
    other = "unsloth_zoo unknown has another interface: it has no unsloth_zoo.rl_replacements"
    error = failure(tmp_path)
    assert (error.kind, str(error)) == ("broken", other)
    module = package / "rl_replacements.py"
    module.write_text("")
    assert str(failure(tmp_path)) == f"{other}.grpo_compute_loss"
    module.write_text("def grpo_compute_loss(new_logits, **kwargs): pass\n")
    assert "its grpo_compute_loss takes no ref, new, old" in str(failure(tmp_path))
    module.write_text("raise NotImplementedError('You need a GPU.')\n")
    assert str(failure(tmp_path)) == "unsloth_zoo unknown does not start here: You need a GPU."
    module.write_text("import nobodys_library\n")
    assert str(failure(tmp_path)) == "unsloth_zoo unknown needs nobodys_library, which is not installed"
