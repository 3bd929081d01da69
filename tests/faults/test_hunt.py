"""The hunt for seeded faults: what escapes, and what is taken for a fault, fails."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from cases.dtypes import FLOAT32
from harness.client import TargetUnavailable
from harness.exit_codes import ExitCode
from harness.faults.hunt import Fate, Hunt, Hunted, Stopped
from harness.faults.report import lines
from harness.faults.survey import Fault, Survey, survey
from harness.faults.worker import About, FaultWorker
from harness.generation import Scheduled, schedule
from harness.plan import Plan
from harness.worker.targets.faults import FAULTS
from tests.faults.inside import BY_NAME

PLAN = Plan.of(["fault:none"], loss_types="grpo,dapo", betas="0", dtypes="float32", examples=1)
ENTRIES = schedule(1, 0)


@pytest.fixture(scope="module")
def worker() -> Iterator[FaultWorker]:
    with FaultWorker(sys.executable) as client:
        yield client


def hunted(worker: FaultWorker, name: str, entries: Sequence[Scheduled], **about: object) -> Hunted:
    """What becomes of a fault that is put some descriptions."""
    hunt = Hunt(PLAN, FLOAT32, entries, threading.Event())
    opened = worker.open(name)
    return hunt.hunted(replace(opened, **about), worker)  # type: ignore[arg-type]  # fields of About


def ended(found: Hunted) -> tuple[Survey, str]:
    """A survey of that alone, as it is printed."""
    result = Survey((Fault(found.about, (found,)),))
    return result, "\n".join(lines(result, PLAN))


def test_one_process_opens_every_fault(worker: FaultWorker) -> None:
    """Each under its own name, saying of itself what the fault's own module says; names are all there are."""
    assert worker.names() == tuple(BY_NAME)
    pid = worker.pid
    for fault in FAULTS[::20]:
        about = worker.open(fault.name)
        assert about == About(
            fault.name,
            fault.wrong,
            fault.equivalent,
            fault.drowned,
            fault.loss_types,
            fault.levels,
            fault.dtypes,
            fault.large,
        )
        assert worker.facts.label == f"fault:{fault.name}"
    assert worker.pid == pid
    with pytest.raises(TargetUnavailable, match="no fault named 'no_clp'"):
        worker.open("no_clp")


def test_the_first_case_that_fails_ends_it(worker: FaultWorker) -> None:
    """Its number is that of the description, and nothing is put after it."""
    found = hunted(worker, "kl_sign", ENTRIES)
    assert found.fate is Fate.ESCAPED, "the plan has no KL term"
    found = hunted(worker, "clamp_d_20", ENTRIES)
    assert found.fate is Fate.CAUGHT
    entry = ENTRIES[found.cases - 1]
    assert entry.phase == found.phase == "regions"
    assert found.cell in ("grpo token beta 0", "grpo sequence beta 0", "dapo token beta 0", "dapo sequence beta 0")
    assert hunted(worker, "clamp_d_20", ENTRIES[: found.cases - 1]).fate is Fate.ESCAPED


def test_what_escapes_fails(worker: FaultWorker) -> None:
    """With how near the cases came; or that none had the option without which the fault changes nothing."""
    result, printed = ended(hunted(worker, "clamp_d_20", ENTRIES[:2]))
    assert result.exit_code is ExitCode.DIVERGES
    assert result.score == "0 of 1 fault caught"
    assert "clamp_d_20 escapes in float32: 8 cases conform, the nearest at 0." in printed
    _, printed = ended(hunted(worker, "delta_ignored", ENTRIES[3:5]))
    assert "delta_ignored escapes in float32: no case has what it needs" in printed


def test_what_changes_nothing_must_not_be_caught(worker: FaultWorker) -> None:
    """The control: it is put one case of every description; were one to fail, the bound would be too narrow."""
    found = hunted(worker, "none", ENTRIES)
    assert found.fate is Fate.EQUIVALENT
    assert 0.9 * len(ENTRIES) < found.cases <= len(ENTRIES)
    result, printed = ended(hunted(worker, "no_clip", ENTRIES, equivalent=True))
    assert result.exit_code is ExitCode.DIVERGES
    assert result.score == "0 of 0 faults caught, 1 equivalent, 1 of these taken for a fault"
    assert "no_clip is taken for a fault in float32" in printed


def test_what_drowns_is_tried_all_the_same(worker: FaultWorker) -> None:
    """And counts as caught where a case does catch it."""
    assert hunted(worker, "scale_1e-4", ENTRIES, drowned=("float32",)).fate is Fate.CAUGHT


def test_the_ci_profile_catches_every_fault_in_its_coarsest_dtype() -> None:
    """But for those that drown in it, which the faults name; the finer dtypes are tested loss by loss."""
    plan = Plan.of(["fault:none"], dtypes="bfloat16", jobs=2)
    seen: list[Hunted] = []
    found = survey(plan, [], lambda one, _of: seen.append(one))
    assert [one for one in seen if one.fate.fails] == []
    assert found.exit_code is ExitCode.CONFORMS
    drowned = {one.about.name for one in seen if one.fate is Fate.DROWNED}
    assert drowned == {fault.name for fault in FAULTS if "bfloat16" in fault.drowned and not fault.large}
    equivalent = sum(fault.equivalent for fault in FAULTS)
    caught = sum(one.fate is Fate.CAUGHT for one in seen)
    assert found.score.startswith(f"{caught} of {caught} faults caught, {equivalent} equivalent, ")


def test_a_hunt_that_is_called_off_stops(worker: FaultWorker) -> None:
    """Before the next case."""
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Stopped):
        Hunt(PLAN, FLOAT32, ENTRIES, stopped).hunted(worker.open("no_clip"), worker)
