"""The real `GRPOTrainer`: every loss, level and dtype is answered, and in float64 exactly so."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cases.case import Case
from cases.dtypes import DTYPES, FloatArray
from cases.spec import Level, LossType
from harness.client import WorkerClient

pytest.importorskip("trl")

MakeCase = Callable[..., Case]

OF_TRL = tuple(loss_type for loss_type in LossType if loss_type is not LossType.GMPO)
"""The losses that its `loss_type` can name."""

WRITTEN_DOWN = (LossType.GRPO, LossType.BNPO, LossType.DR_GRPO, LossType.DAPO, LossType.CISPO)
"""The losses whose formula this file has a second time."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The current directory, the home and the temporary directory of the target."""
    path = tmp_path_factory.mktemp("trl")
    for name in ("cwd", "home", "tmp"):
        (path / name).mkdir()
    return path


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[WorkerClient]:
    """One trainer for all: importing TRL takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("TMPDIR", str(folder / "tmp"))
        for name in ("HF_HOME", "XDG_CACHE_HOME"):
            patch.delenv(name, raising=False)
        with WorkerClient(sys.executable, "trl", cwd=folder / "cwd") as client:
            yield client


def loss_and_gradient(case: Case) -> tuple[float, FloatArray]:
    """The formulas in float64; the gradient in closed form."""
    batch, spec = case.batch, case.spec
    mask = batch.mask.astype(float)
    lengths = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    advantages = batch.token_advantages
    # d log-ratio / d logps: 1 for the token itself, or 1 / length for each token of the completion.
    log_ratio, share = batch.log_ratios, np.ones_like(mask)
    if spec.importance_sampling_level is Level.SEQUENCE:
        log_ratio = (log_ratio * mask).sum(axis=1, keepdims=True) / lengths + 0 * mask
        share = mask / lengths
    ratio = np.exp(log_ratio)
    if spec.loss_type is LossType.CISPO:
        capped = np.minimum(ratio, spec.epsilon_high) * advantages
        token, slope, share = -capped * batch.logps, -capped, np.ones_like(mask)
    else:
        clipped = np.clip(ratio, 1 - spec.epsilon_low, 1 + spec.epsilon_high)
        token = -np.minimum(ratio * advantages, clipped * advantages)
        slope = np.where(ratio * advantages <= clipped * advantages, -ratio * advantages, 0.0)
    weight = {
        LossType.GRPO: mask / lengths / batch.rows,
        LossType.DR_GRPO: mask / (batch.rows * spec.max_completion_length),
    }.get(spec.loss_type, mask / mask.sum())
    if spec.importance_sampling_level is Level.SEQUENCE and spec.loss_type is not LossType.CISPO:
        # One ratio in every token of the completion: each token moves them all.
        gradient = (weight * slope).sum(axis=1, keepdims=True) * share
    else:
        gradient = weight * slope
    loss = (weight * token).sum()
    if spec.beta:
        assert batch.ref_logps is not None
        log_ref = batch.ref_logps - batch.logps
        loss += (weight * spec.beta * (np.exp(log_ref) - log_ref - 1)).sum()
        gradient = gradient + weight * spec.beta * (1 - np.exp(log_ref))
    return float(loss), gradient


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("loss_type", OF_TRL)
def test_every_loss_level_and_dtype_is_answered(
    client: WorkerClient, make_case: MakeCase, dtype: str, level: str, loss_type: str
) -> None:
    """Loss and gradient are finite, and padding has gradient 0."""
    for beta in (0.0, 0.04):
        case = make_case(dtype, loss_type, level, beta)
        outcome = client.ask(case)
        assert outcome.status == "ok", outcome.message
        assert outcome.notes == ()
        assert outcome.loss is not None
        assert outcome.gradient is not None
        assert np.isfinite(outcome.loss)
        assert np.isfinite(outcome.gradient).all()
        assert not outcome.gradient[~case.batch.mask].any()
        assert DTYPES[dtype].holds(outcome.gradient)


@pytest.mark.parametrize("form", ["off-policy", "on_policy", "token_advantages"])
@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("loss_type", WRITTEN_DOWN)
def test_float64_is_what_the_formula_says(
    client: WorkerClient, make_case: MakeCase, form: str, beta: float, level: str, loss_type: str
) -> None:
    """Every option reaches TRL under its own name, and the answer is read back right."""
    case = make_case("float64", loss_type, level, beta, **({} if form == "off-policy" else {form: True}))
    outcome = client.ask(case)
    loss, gradient = loss_and_gradient(case)
    assert outcome.loss == pytest.approx(loss, rel=1e-12, abs=1e-14)
    np.testing.assert_allclose(outcome.gradient, gradient, rtol=1e-12, atol=1e-14)


def test_the_facts_say_what_was_run(client: WorkerClient) -> None:
    """Release, support, conventions, and what of the library was replaced."""
    facts = client.facts
    assert facts.label == f"trl {facts.versions['trl']}"
    assert facts.supports.loss_types == OF_TRL
    assert facts.supports.levels == tuple(Level)
    assert facts.supports.dtypes == tuple(DTYPES)
    assert any("_get_per_token_logps_and_entropies" in replaced for replaced in facts.replaced)
    assert facts.python == ".".join(map(str, sys.version_info[:3]))


def test_nothing_is_left_on_disk(client: WorkerClient, folder: Path) -> None:
    """Neither in the current directory nor at home nor among temporary files."""
    assert client.facts.label.startswith("trl")
    assert os.listdir(folder / "cwd") == []
    assert os.listdir(folder / "home") == []
    # torch keeps a cache of its own there.
    assert [name for name in os.listdir(folder / "tmp") if not name.startswith("torchinductor")] == []
