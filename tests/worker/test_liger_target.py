"""Liger-Kernel, a release whose bias-corrected KL term has the ratio of the level and one before.

A mistake of the adapter would show as a divergence; the few there are, are Liger's and are named here.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cases.conventions import Conventions
from cases.descriptions import Advantage, Description, Importance, Layout, OffPolicyMask, Ratio, Row
from cases.dtypes import FLOAT64
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import KLEstimator, Level, LossType
from cases.split import Split
from harness.asking import Contestant
from harness.client import TargetUnavailable, WorkerClient
from tests.worker.fetched import departures, opened

CLIPPED = ("grpo", "bnpo", "dapo", "dr_grpo")
ROWS = (
    Row(Layout.PREFIX, 2, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
    Row(Layout.FULL, 1, (Ratio.FAR_ABOVE, Ratio.BELOW_LOW), advantage=Advantage.NEGATIVE),
)
PLAIN = Description(ROWS, columns=3, seed=1)


@pytest.fixture(scope="module")
def new() -> Iterator[Contestant]:
    """The newest release that is driven."""
    with opened("liger==0.8.5") as one:
        yield one


@pytest.fixture(scope="module")
def old() -> Iterator[Contestant]:
    """The first release of this interface."""
    with opened("liger==0.8.0") as one:
        yield one


def message(one: Contestant, loss_type: str, description: Description = PLAIN, level: str = "token") -> str:
    """What it says to a case in float64, "" where it answers."""
    batch = realise(description, FLOAT64, Level(level))
    outcome = one.client.ask(case_for(description, batch, LossType(loss_type), Level(level), 0.04))
    return outcome.message


@pytest.mark.parametrize(
    ("loss_type", "level"),
    [
        *((loss_type, level) for loss_type in CLIPPED for level in Level),
        ("cispo", "token"),
        ("sapo", "token"),
        ("vespo", "token"),
    ],
)
def test_every_loss_conforms(new: Contestant, loss_type: str, level: str) -> None:
    """With KL term, at every boundary, with delta and importance ratios: in float64, to the last digits."""
    conforming, departing = departures(new, "float64", loss_type, level, 0.04)
    assert conforming > 60
    assert departing == []


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_other_dtypes_conform(new: Contestant, dtype: str) -> None:
    """The same calls hold in every dtype; losses of completions are added up without rounding in between."""
    conforming, departing = departures(new, dtype, "dr_grpo", "token", 0.04)
    assert conforming > 50
    assert departing == []


@pytest.mark.parametrize("release", ["old", "new"])
def test_padding_enters_luspo(release: str, request: pytest.FixtureRequest) -> None:
    """The one other departure: the mean over all positions of length times token loss, where one is masked."""
    one: Contestant = request.getfixturevalue(release)
    conforming, departing = departures(one, "float64", "luspo", "token", 0.0)
    assert conforming > 20
    assert departing
    assert not any(case.batch.mask.all() for case in departing)
    # One term a completion has no positions to take a mean over, unless a weight has.
    conforming, departing = departures(one, "float64", "luspo", "sequence", 0.0)
    assert conforming > 60
    assert departing
    assert all("importance_per_token" in regions_of(case) for case in departing)


def test_the_old_release_conforms_but_for_one_ratio(old: Contestant) -> None:
    """Its bias-corrected KL term has the ratio of the token, at sequence level too."""
    for loss_type, level in (("grpo", "token"), ("sapo", "token"), ("vespo", "token")):
        conforming, departing = departures(old, "float64", loss_type, level, 0.04)
        assert conforming > 60
        assert departing == []
    conforming, departing = departures(old, "float64", "grpo", "sequence", 0.04)
    assert conforming > 60
    assert departing
    assert all(case.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED for case in departing)
    assert all(max(case.batch.lengths) > 1 for case in departing)


def test_the_facts(new: Contestant) -> None:
    """It settles nothing in a way of its own; what of it does not run is said."""
    facts = new.facts
    assert facts.label == "liger 0.8.5"
    assert set(facts.supports.loss_types) == {*CLIPPED, "cispo", "sapo", "luspo", "vespo"}
    options = {"beta", "old_logps", "delta", "importance_ratio", "k3_bias_corrected"}
    assert set(facts.supports.options) == options
    assert (facts.conventions, dict(facts.conventions_by_loss)) == (Conventions(), {})
    assert any("computes them from hidden states" in replaced for replaced in facts.replaced)
    assert any("not compiled" in replaced for replaced in facts.replaced)
    stands_in = any("triton is a stand-in" in replaced for replaced in facts.replaced)
    assert stands_in is (importlib.util.find_spec("triton") is None)


def test_what_it_lacks_is_refused(new: Contestant) -> None:
    """A sentence for each, in place of an answer to another question."""
    says = "liger 0.8.5 says: Sequence-level importance sampling is not supported for loss_type='cispo'."
    assert message(new, "cispo", level="sequence").startswith(says)
    assert "for the product over its tokens" in message(
        new, "vespo", replace(PLAIN, importance=Importance.PER_ROW)
    )
    assert "advantages of shape (B, T)" in message(new, "grpo", replace(PLAIN, token_advantages=True))
    assert "'gmpo' is not supported" in message(new, "gmpo")
    for lacking in (
        replace(PLAIN, split=Split(ranks=2)),
        replace(PLAIN, kl_estimator=KLEstimator.K1),
        replace(PLAIN, off_policy_mask=OffPolicyMask.OLD),
    ):
        assert message(new, "dapo", lacking).endswith("is not supported")
    assert message(new, "vespo", replace(PLAIN, importance=Importance.PER_TOKEN)) == ""


def failure(path: Path) -> TargetUnavailable:
    """How Liger fails to open with a folder laid over this interpreter."""
    with pytest.raises(TargetUnavailable) as caught, WorkerClient(sys.executable, "liger", path=(path,)):
        pass
    return caught.value


def test_where_there_is_no_liger(tmp_path: Path) -> None:
    """One sentence, and the command that installs it."""
    source = "raise ModuleNotFoundError(\"No module named 'liger_kernel'\", name='liger_kernel')"
    (tmp_path / "liger_kernel.py").write_text(source)
    error = failure(tmp_path)
    assert (error.kind, str(error)) == ("not_installed", "liger_kernel is not installed")
    assert error.hint == f"{sys.executable} -m pip install liger_kernel"


def test_a_liger_of_another_interface(tmp_path: Path) -> None:
    """One sentence names what is looked for: a module, a class, then a parameter."""
    package = tmp_path / "liger_kernel" / "chunked_loss"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    other = "liger_kernel unknown has another interface: it has no liger_kernel.chunked_loss.grpo_loss"
    error = failure(tmp_path)
    assert (error.kind, str(error)) == ("broken", other)
    loss = package / "grpo_loss.py"
    loss.write_text("")
    assert str(failure(tmp_path)) == f"{other}.LigerFusedLinearGRPOFunction"
    loss.write_text("class LigerFusedLinearGRPOFunction:\n    def ppo_loss_fn(log_probs, **options): pass\n")
    assert "its ppo_loss_fn takes no per_token_logps, attention_mask" in str(failure(tmp_path))
