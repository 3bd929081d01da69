"""What only size shows is seeded, and caught by large batches alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import pytest

from cases.dtypes import DTYPES, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.asking import Contestant, Question, put
from harness.exit_codes import ExitCode
from harness.faults.hunt import Fate
from harness.faults.report import lines
from harness.faults.survey import survey
from harness.generation import LARGE, Scheduled, schedule
from harness.plan import PROFILES, Plan
from harness.worker.targets.faults import FAULTS
from harness.worker.targets.faults.fault import Fault
from reports.records import Record, Verdict
from tests.faults.inside import contestant

SCHEDULE: Final = schedule(PROFILES["ci"].examples, 0, large=True)
ORDINARY: Final = [entry for entry in SCHEDULE if entry.phase != LARGE]
BIG: Final = [entry for entry in SCHEDULE if entry.phase == LARGE]
DRAWN: Final = lru_cache(maxsize=4)(realise)
ONLY_LARGE: Final = [fault for fault in FAULTS if fault.large]


def records(
    one: Contestant, entry: Scheduled, dtype: DType, loss_type: LossType, level: Level
) -> Iterator[Record]:
    """How a scheduled description ends with a KL term."""
    batch = DRAWN(entry.description, dtype, level)
    case = case_for(entry.description, batch, loss_type, level, 0.04)
    for judged in put(Question(case, (), entry.number, entry.phase), [one]):
        yield judged.record


@pytest.mark.parametrize("fault", ONLY_LARGE, ids=lambda fault: fault.name)
def test_large_batches_show_it(fault: Fault) -> None:
    """In every loss that it claims, in float32; in bfloat16, where it is not drowned, in one of them."""
    one = contestant(fault)

    def uncaught(dtype: str) -> set[str]:
        left = set(fault.loss_types)
        for entry in BIG:
            for loss_type in sorted(left):
                found = records(one, entry, DTYPES[dtype], LossType(loss_type), Level.TOKEN)
                if any(record.verdict is Verdict.DIVERGES for record in found):
                    left.remove(loss_type)
        return left

    assert uncaught("float32") == set()
    if "bfloat16" not in fault.drowned:
        assert uncaught("bfloat16") < set(fault.loss_types)


@pytest.mark.parametrize("fault", ONLY_LARGE, ids=lambda fault: fault.name)
def test_ordinary_cases_do_not(fault: Fault) -> None:
    """That is what large batches are for: of every other case, in one cell or another, none diverges."""
    one = contestant(fault)
    caught = [
        (entry.number, record.cell)
        for entry in ORDINARY
        for dtype in (DTYPES[("float32", "bfloat16", "float64")[entry.number % 3]],)
        for loss_type in (fault.loss_types[entry.number % len(fault.loss_types)],)
        for record in records(one, entry, dtype, LossType(loss_type), list(Level)[entry.number % 2])
        if record.verdict.fails
    ]
    assert caught == []


def test_without_large_batches_it_is_left_aside() -> None:
    """It is listed, and neither caught nor escaped; with them it counts."""
    plan = Plan.of(["fault:none"], loss_types="bnpo", dtypes="float32", examples=1)
    without = survey(plan, ["rest_of_blocks_left_out"], lambda _one, _of: None)
    assert [one.fate for one in without.faults[0].found] == [Fate.LARGE]
    assert without.score == "0 of 0 faults caught, 1 that only --large shows"
    assert without.exit_code is ExitCode.CONFORMS
    assert any("large" in line.split() and "rest_of_blocks_left_out" in line for line in lines(without, plan, 100))
    large = Plan.of(["fault:none"], loss_types="bnpo", dtypes="float32", examples=1, large=True)
    found = survey(large, ["rest_of_blocks_left_out"], lambda _one, _of: None)
    assert [(one.fate, one.phase) for one in found.faults[0].found] == [(Fate.CAUGHT, LARGE)]
    assert found.score == "1 of 1 fault caught"
