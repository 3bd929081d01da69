"""The seeded faults are caught, and what changes nothing is not."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import pytest

from cases.case import Case
from cases.dtypes import DTYPES, DType, FloatArray
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.asking import Contestant, Question, put
from harness.client import Outcome, TargetFacts, TargetUnavailable, WorkerClient
from harness.engine import execute
from harness.events import CaseJudged, Event, RunStarted
from harness.exit_codes import ExitCode
from harness.generation import Scheduled, schedule
from harness.outcome import case_request
from harness.plan import Plan
from harness.worker import protocol
from harness.worker.service import Service
from harness.worker.targets.faults import FAULTS, PREFIX
from harness.worker.targets.faults.fault import LOSSES, Fault
from reports.records import Record, Verdict

CASES: Final = 64
SCHEDULE: Final = schedule(CASES, 0)
BETAS: Final = (0.0, 0.04)

# The references at which k3 exceeds 10, or falls below 1e-4, come at the end of the schedule's boundary phase.
LATER: Final = ("k3_clamp10", "kl_zero_lt_1e-4")

NOTHING: Final[Mapping[str, FloatArray]] = MappingProxyType({})

REAL: Final = [fault for fault in FAULTS if not fault.equivalent]
EQUIVALENT: Final = [fault for fault in FAULTS if fault.equivalent]


class Inside(WorkerClient):
    """The worker's own code in this process: to start another takes longer than all that is asked of it."""

    def __init__(self, target: str) -> None:
        self._service = Service()
        opened = self._answer(protocol.pack({"request": "open", "target": target, "options": {}}))
        self._facts = TargetFacts.from_headers({"python": "", "torch": "", "platform": ""}, opened.header)

    def submit(self, case: Case, device: str = "cpu", instead: Mapping[str, FloatArray] = NOTHING) -> None:
        self._request = case_request(case, device, instead)

    def receive(self) -> Outcome:
        return Outcome.from_message(self._answer(self._request), "")

    def _answer(self, request: bytes) -> protocol.Message:
        return _message(self._service.answer(_message(request)))


def _message(data: bytes) -> protocol.Message:
    message = protocol.read_message(io.BytesIO(data).read)
    assert message is not None
    return message


def contestant(fault: Fault) -> Contestant:
    client = Inside(PREFIX + fault.name)
    return Contestant(client, client.facts, "cpu")


def records(
    contestants: Sequence[Contestant], entry: Scheduled, dtype: DType, loss_type: LossType, level: Level
) -> Iterator[Record]:
    """How a scheduled description ends in the cells of a loss and a level."""
    batch = realise(entry.description, dtype, level)
    for beta in BETAS:
        case = case_for(entry.description, batch, loss_type, level, beta)
        for judged in put(Question(case, (), entry.number, entry.phase), contestants):
            yield judged.record


@pytest.mark.parametrize("fault", REAL, ids=lambda fault: fault.name)
def test_every_fault_is_caught_in_every_loss_that_it_claims(fault: Fault) -> None:
    """Within the first cases of a cell, in float32; what is no fault there, in float64."""
    one = contestant(fault)
    dtype = DTYPES["float32" if "float32" in fault.dtypes else "float64"]
    boundaries = [entry for entry in SCHEDULE if entry.phase == "regions"]
    entries = boundaries if fault.name in LATER else boundaries[:CASES]
    missed = [
        loss_type
        for loss_type in fault.loss_types
        if not any(
            record.verdict is Verdict.DIVERGES
            for entry in entries
            for record in records([one], entry, dtype, LossType(loss_type), Level(fault.levels[0]))
        )
    ]
    assert missed == []


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_what_changes_nothing_conforms(dtype: DType) -> None:
    """The implementation that the faults are made from, and a change of it that does not count."""
    assert [fault.name for fault in EQUIVALENT] == ["none", "mask_logratio"]
    contestants = [contestant(fault) for fault in EQUIVALENT]
    found = {
        (record.cell, record.verdict, record.message)
        for entry in SCHEDULE[:90]
        for loss_type in LOSSES
        for level in Level
        for record in records(contestants, entry, dtype, LossType(loss_type), level)
        if record.verdict not in (Verdict.CONFORMS, Verdict.OVERFLOW)
    }
    assert found == set()


def test_a_fault_claims_nothing_that_it_leaves_alone() -> None:
    """Other losses, levels and dtypes, and cases without a KL term, are unsupported."""
    entry = SCHEDULE[0]
    by_name = {fault.name: fault for fault in FAULTS}
    asked = {
        "dr_total": (DTYPES["float32"], LossType.GRPO, Level.TOKEN),
        "seq_level": (DTYPES["float32"], LossType.GRPO, Level.SEQUENCE),
        "f32_inside": (DTYPES["float32"], LossType.GRPO, Level.TOKEN),
    }
    for name, cell in asked.items():
        found = {record.verdict for record in records([contestant(by_name[name])], entry, *cell)}
        assert found == {Verdict.UNSUPPORTED}, name
    cells = records([contestant(by_name["k1"])], entry, DTYPES["float32"], LossType.GRPO, Level.TOKEN)
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
    assert len(REAL) == 57
    for fault in FAULTS:
        assert fault.wrong, fault.name
        assert "\n" not in fault.wrong, fault.name
        assert not fault.wrong.endswith("."), fault.name
