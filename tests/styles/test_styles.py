"""Correct implementations conform, however they are written."""

from __future__ import annotations

import sys
from collections import Counter
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
    "tests.styles.styles:weights_folded",
    "tests.styles.styles:split_kl",
    "tests.styles.closed_form:closed_form",
)
"""With all losses and options."""

PLAIN_STYLES: Final = (
    "tests.styles.plain:log_space_clip",
    "tests.styles.plain:float32_internals",
    "tests.styles.packed:reversed_summation",
)
"""With five losses and no options."""

BETAS: Final = (0.0, 0.04, 1.0)
DRAWN: Final = 40


@pytest.fixture(scope="module")
def contestants() -> Iterator[Sequence[Contestant]]:
    """Every style in a process of its own."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(WorkerClient(sys.executable, name, cwd=ROOT)) for name in (*STYLES, *PLAIN_STYLES)
        ]
        yield [Contestant(client, client.facts, "cpu") for client in clients]


def entries(seed: int) -> Iterator[Scheduled]:
    """The schedule without splits; at another seed, what is drawn. Every other drawn batch has no options."""
    for entry in schedule(DRAWN, seed):
        description = entry.description
        if entry.phase == "drawn":
            plain = entry.number % 4 >= 2
            yield replace(entry, description=_without_options(description) if plain else _whole(description))
        elif seed == 0 and description.split.is_whole:
            yield entry


def _whole(description: Description) -> Description:
    return replace(description, split=Split())


def _without_options(description: Description) -> Description:
    return replace(
        _whole(description),
        delta=Delta.NONE,
        kl_estimator=KLEstimator.K3,
        importance=Importance.NONE,
        off_policy_mask=OffPolicyMask.NONE,
    )


def questions(seed: int, dtype: DType) -> Iterator[Question]:
    """Every batch in every loss; levels and betas in turn."""
    for entry in entries(seed):
        level = tuple(Level)[entry.number % 2]
        batch = realise(entry.description, dtype, level)
        for number, loss_type in enumerate(LossType):
            beta = BETAS[(entry.number // 2 + number) % len(BETAS)]
            case = case_for(entry.description, batch, loss_type, level, beta)
            yield Question(case, (), entry.number, entry.phase)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_no_correct_style_diverges(contestants: Sequence[Contestant], dtype: DType, seed: int) -> None:
    """In any loss, level and beta: what they differ in is rounding, and the bound covers it."""
    answered: Counter[str] = Counter()
    failing = []
    for question in questions(seed, dtype):
        for judged in put(question, contestants):
            record = judged.record
            if record.verdict.fails:
                failing.append(f"{record.cell} {record.case_id}: {record.verdict}, {record.message}")
            elif record.verdict is not Verdict.UNSUPPORTED:
                answered[record.cell.target] += 1
    assert failing == []
    assert all(answered[name] == DRAWN * len(LossType) for name in STYLES) or seed == 0
    assert all(answered[name] >= DRAWN for name in PLAIN_STYLES)
