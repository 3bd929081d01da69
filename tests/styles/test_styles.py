"""Correct implementations conform, however they are written."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cases.descriptions import Delta, Description, Importance, OffPolicyMask
from cases.dtypes import DTYPES, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import KLEstimator, Level, LossType
from cases.split import Split
from harness.asking import Contestant, Question, put
from harness.client import WorkerClient
from harness.generation import Scheduled, schedule
from reports.records import Verdict

ROOT: Final = Path(__file__).parents[2]

STYLES: Final = (
    "tests.styles.styles:mask_multiply",
    "tests.styles.styles:where",
    "tests.styles.styles:log_space_clip",
    "tests.styles.styles:float32_internals",
    "tests.styles.styles:weights_folded",
    "tests.styles.styles:split_kl",
    "tests.styles.closed_form:closed_form",
    "tests.styles.packed:reversed_summation",
)
LOSS_TYPES: Final = (LossType.GRPO, LossType.BNPO, LossType.DR_GRPO, LossType.DAPO, LossType.CISPO)
BETAS: Final = (0.0, 0.04, 1.0)
DRAWN: Final = 40


@pytest.fixture(scope="module")
def contestants() -> Iterator[Sequence[Contestant]]:
    """Every style in a process of its own."""
    with ExitStack() as stack:
        clients = [stack.enter_context(WorkerClient(sys.executable, name, cwd=ROOT)) for name in STYLES]
        yield [Contestant(client, client.facts, "cpu") for client in clients]


def entries(seed: int) -> Iterator[Scheduled]:
    """The schedule without the options that the styles have none of; at another seed, what is drawn."""
    for entry in schedule(DRAWN, seed):
        plain = _without_options(entry.description)
        if entry.phase == "drawn" or (seed == 0 and plain == entry.description):
            yield replace(entry, description=plain)


def _without_options(description: Description) -> Description:
    return replace(
        description,
        delta=Delta.NONE,
        kl_estimator=KLEstimator.K3,
        importance=Importance.NONE,
        off_policy_mask=OffPolicyMask.NONE,
        split=Split(),
    )


def questions(seed: int, dtype: DType) -> Iterator[Question]:
    for entry in entries(seed):
        for level in Level:
            batch = realise(entry.description, dtype, level)
            for loss_type in LOSS_TYPES:
                for beta in BETAS:
                    case = case_for(entry.description, batch, loss_type, level, beta)
                    yield Question(case, (), entry.number, entry.phase)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_no_correct_style_diverges(contestants: Sequence[Contestant], dtype: DType, seed: int) -> None:
    """In any loss, level and beta: what they differ in is rounding, and the bound covers it."""
    asked = 0
    failing = []
    for question in questions(seed, dtype):
        for judged in put(question, contestants):
            asked += 1
            record = judged.record
            if record.verdict not in (Verdict.CONFORMS, Verdict.OVERFLOW):
                failing.append(f"{record.cell} {record.case_id}: {record.verdict}, {record.message}")
    assert failing == []
    cells = len(LOSS_TYPES) * len(Level) * len(BETAS)
    assert asked >= DRAWN * cells * len(STYLES)
