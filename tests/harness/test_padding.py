"""Padding hygiene: four lines, each promise kept or called out."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from cases.conventions import PaddingPromise
from cases.dtypes import DTYPES
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.schedule import padding_descriptions
from cases.spec import Level, LossType
from harness.asking import Contestant
from harness.client import WorkerClient
from harness.events import PaddingChecked
from harness.padding import check, garbage
from harness.plan import Plan

LOSS = """
import torch

def loss(logps, old_logps, advantages, mask, epsilon_low, epsilon_high):
    if advantages.dim() == 1:
        advantages = advantages[:, None].expand_as(logps)
    {clean}
    ratio = torch.exp(logps - (logps.detach() if old_logps is None else old_logps))
    token = -torch.min(ratio * advantages, ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * advantages)
    return {mean}
"""
CLEANED = """
    zero = torch.zeros_like(logps)
    logps = torch.where(mask, logps, zero)
    old_logps = None if old_logps is None else torch.where(mask, old_logps, zero)
    advantages = torch.where(mask, advantages, zero)
"""
MASKED_MEAN = "(token * mask).sum() / mask.sum().clamp(min=1)"


def checked(tmp_path: Path, name: str, clean: str, mean: str, strict: bool = False) -> list[PaddingChecked]:
    (tmp_path / f"{name}.py").write_text(LOSS.format(clean=clean, mean=mean))
    plan = Plan.of([f"{name}:loss"], loss_types="bnpo", levels="token", betas="0", dtypes="float32")
    with WorkerClient(sys.executable, f"{name}:loss", {"loss_type": "bnpo"}, cwd=tmp_path) as client:
        return list(check(plan, [Contestant(client, client.facts, "cpu", strict=strict)]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("padding")


def leaks(events: list[PaddingChecked]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {str(line): set() for line in PaddingPromise}
    for event in events:
        found[str(event.line)].update(event.tensors)
    return found


def test_multiplying_by_the_mask_ignores_finite_values_only(folder: Path) -> None:
    """Infinity times 0 is NaN: shown, and no divergence, because it was not promised."""
    events = checked(folder, "multiplied", "pass", MASKED_MEAN)
    found = leaks(events)
    assert found["finite"] == set()
    assert "logps" in found["nan"]
    assert "advantages" in found["inf"]
    assert all(event.record is None for event in events)


def test_cleaning_first_ignores_everything(folder: Path) -> None:
    """A target that never reads masked positions passes all four lines."""
    assert leaks(checked(folder, "cleaned", CLEANED, MASKED_MEAN)) == {str(line): set() for line in PaddingPromise}


def test_a_leak_of_finite_values_is_a_divergence(folder: Path) -> None:
    """What everybody must ignore and somebody does not is a record that fails, with the tensor named."""
    events = checked(
        folder,
        "leaking",
        "pass",
        "(token * mask).sum() / mask.sum().clamp(min=1) + 0 * token.sum() + 1e-3 * (token * ~mask).sum()",
    )
    records = [event.record for event in events if event.record is not None]
    assert records
    assert all(record.verdict == "diverges" for record in records)
    assert "finite values at masked positions change the answer: in logps, the loss is" in records[0].message


def test_strict_judges_all_lines(folder: Path) -> None:
    """By the bare formula, nothing at a masked position matters."""
    events = checked(folder, "multiplied", "pass", MASKED_MEAN, strict=True)
    assert {str(event.line) for event in events if event.record is not None} >= {"inf", "nan"}


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("level", Level)
def test_garbage_changes_masked_positions_only(dtype: object, level: Level) -> None:
    """Every tensor with a value a position is tried in every line; unmasked values stay as they are."""
    for description in padding_descriptions():
        batch = realise(description, dtype, level)  # type: ignore[arg-type]
        case = case_for(description, batch, LossType.GRPO, level, 0.04)
        tried = set()
        for dirty in garbage(case):
            values = getattr(batch, dirty.tensor)
            tried.add((str(dirty.line), dirty.tensor))
            assert np.array_equal(dirty.values[batch.mask], values[batch.mask])
            assert not np.array_equal(dirty.values[~batch.mask], values[~batch.mask])
            if dirty.line in (PaddingPromise.FINITE, PaddingPromise.HUGE):
                assert batch.dtype.holds(dirty.values)
        assert {line for line, _ in tried} == {str(line) for line in PaddingPromise}
        assert {"logps", "old_logps", "ref_logps"} <= {tensor for _, tensor in tried}
