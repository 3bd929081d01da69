"""The seeded faults are caught, and what changes nothing is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import pytest

from cases.case import Case
from cases.descriptions import Delta, Description, Importance, OffPolicyMask
from cases.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import KLEstimator, Level, LossType
from harness.asking import Contestant, Question, put
from harness.client import TargetUnavailable, WorkerClient
from harness.engine import execute
from harness.events import CaseJudged, Event, RunStarted
from harness.exit_codes import ExitCode
from harness.generation import Scheduled, schedule
from harness.padding import check
from harness.plan import PROFILES, Plan
from harness.worker.targets.faults import FAULTS, PREFIX
from harness.worker.targets.faults.fault import LOSSES, Fault
from reports.records import Record, Verdict
from tests.faults.inside import BY_NAME, contestant

CASES: Final = 112
SCHEDULE: Final = schedule(PROFILES["ci"].examples, 0)
BETAS: Final = (0.0, 0.04)

PROMISING: Final = [fault for fault in FAULTS if len(fault.promises) > 1]
"""Those that promise more of masked positions than everybody must: padding hygiene has them, not a case."""

TAKEN_ESTIMATORS: Final = (KLEstimator.K3, KLEstimator.K3_BIAS_CORRECTED)
REAL: Final = [fault for fault in FAULTS if not (fault.equivalent or fault.large) and fault not in PROMISING]
EQUIVALENT: Final = [fault for fault in FAULTS if fault.equivalent]


def records(
    contestants: Sequence[Contestant], entry: Scheduled, dtype: DType, loss_type: LossType, level: Level
) -> Iterator[Record]:
    """How a scheduled description ends in the cells of a loss and a level."""
    batch = realise(entry.description, dtype, level)
    for beta in BETAS:
        case = case_for(entry.description, batch, loss_type, level, beta)
        for judged in put(Question(case, (), entry.number, entry.phase), contestants):
            yield judged.record


def shows(fault: Fault, description: Description) -> bool:
    """Whether a description has all options without which the fault changes nothing."""
    has = {
        "beta": True,
        "delta": description.delta is not Delta.NONE,
        "k3_bias_corrected": description.kl_estimator is KLEstimator.K3_BIAS_CORRECTED,
        "importance_ratio": description.importance is not Importance.NONE,
        "off_policy_mask": description.off_policy_mask is not OffPolicyMask.NONE,
        "split": not description.split.is_whole,
    }
    return all(has[option] for option in fault.needs)


@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("fault", REAL, ids=lambda fault: fault.name)
def test_every_fault_is_caught_in_every_loss_that_it_claims(fault: Fault, dtype: DType) -> None:
    """Within the first cases of a cell; of each pair of levels and dtypes that it claims, one is tried."""
    if dtype.name not in fault.dtypes:
        return
    assert dtype.name not in fault.drowned
    one = contestant(fault)
    level = Level(fault.levels[-1 if dtype is FLOAT32 else 0])
    entries = [entry for entry in SCHEDULE[:CASES] if shows(fault, entry.description)]
    missed = [
        loss_type
        for loss_type in fault.loss_types
        if not any(
            record.verdict is Verdict.DIVERGES
            for entry in entries
            for record in records([one], entry, dtype, LossType(loss_type), level)
        )
    ]
    assert missed == []


@pytest.mark.parametrize("fault", PROMISING, ids=lambda fault: fault.name)
def test_a_promise_on_padding_is_held_to(fault: Fault) -> None:
    """Who multiplies by 0 what it promises to ignore diverges; who never looks at it does not."""
    plan = Plan.of([PREFIX + fault.name], loss_types="grpo,vespo", dtypes="float32")
    broken = {str(one.line) for one in check(plan, [contestant(fault)]) if one.record is not None}
    assert broken == (set() if fault.equivalent else {"huge", "inf", "nan"})


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_what_changes_nothing_conforms(dtype: DType) -> None:
    """The implementation that the faults are made from, and changes of it that do not count; each case in turn."""
    names = ["none", "sapo_tau_at_zero", "vespo_sign_at_zero", "mask_logratio", "padding_blank"]
    assert [fault.name for fault in EQUIVALENT] == names
    contestants = {fault: contestant(fault) for fault in EQUIVALENT}
    found = {
        (record.cell, record.verdict, record.message)
        for number, entry in enumerate(SCHEDULE)
        if entry.description.kl_estimator in TAKEN_ESTIMATORS
        for loss_type in LOSSES[number % 3 :: 3]
        for claiming in [[one for fault, one in contestants.items() if loss_type in fault.loss_types]]
        for record in records(claiming, entry, dtype, LossType(loss_type), list(Level)[number % 2])
        if record.verdict not in (Verdict.CONFORMS, Verdict.OVERFLOW)
    }
    assert found == set()


def test_a_fault_claims_nothing_that_it_leaves_alone() -> None:
    """Other losses, levels and dtypes, and cases without a KL term, are unsupported."""
    entry = SCHEDULE[0]
    asked = {
        "dr_total": (DTYPES["float32"], LossType.GRPO, Level.TOKEN),
        "seq_level": (DTYPES["float32"], LossType.GRPO, Level.SEQUENCE),
        "f32_inside": (DTYPES["float32"], LossType.GRPO, Level.TOKEN),
    }
    for name, cell in asked.items():
        found = {record.verdict for record in records([contestant(BY_NAME[name])], entry, *cell)}
        assert found == {Verdict.UNSUPPORTED}, name
    cells = records([contestant(BY_NAME["k1"])], entry, DTYPES["float32"], LossType.GRPO, Level.TOKEN)
    assert [record.verdict for record in cells] == [Verdict.UNSUPPORTED, Verdict.DIVERGES]


def test_a_run_judges_faults_as_any_target() -> None:
    """Each in a process of its own, under its own name, with what is wrong among its facts."""
    names = ("none", "grpo_as_bnpo", "no_clip")
    plan = Plan.of([PREFIX + name for name in names], loss_types="grpo", levels="token", betas="0.04",
                   dtypes="float32", examples=1)  # fmt: skip
    events: list[Event] = []
    assert execute(plan, events.append) is ExitCode.DIVERGES
    started = events[0]
    assert isinstance(started, RunStarted)
    assert started.targets["fault:no_clip"]["replaced"] == ["the ratio is not clipped"]
    diverging = {
        event.record.cell.target
        for event in events
        if isinstance(event, CaseJudged) and event.record.verdict is Verdict.DIVERGES
    }
    assert diverging == {PREFIX + name for name in names[1:]}


@pytest.mark.parametrize(
    ("name", "hint"), [("no_clp", "did you mean fault:no_clip?"), ("zzz", "known here: fault:none, fault:grpo_as")]
)
def test_a_fault_that_is_unknown(name: str, hint: str) -> None:
    """The nearest names are shown, or else all."""
    with pytest.raises(TargetUnavailable, match=f"no fault named '{name}'") as caught:
        WorkerClient(sys.executable, PREFIX + name).ask(_a_case())
    assert caught.value.kind == "unknown"
    assert caught.value.hint.startswith(hint)


def _a_case() -> Case:
    description = SCHEDULE[0].description
    batch = realise(description, DTYPES["float32"], Level.TOKEN)
    return case_for(description, batch, LossType.GRPO, Level.TOKEN, 0.0)


def test_faults_have_names_of_their_own_and_say_what_is_wrong() -> None:
    """One line each, without a period."""
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len(REAL) == 111
    for fault in FAULTS:
        assert fault.wrong, fault.name
        assert "\n" not in fault.wrong, fault.name
        assert not fault.wrong.endswith("."), fault.name
