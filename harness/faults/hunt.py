"""Each seeded fault put the cases of a profile, until one of them catches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import product
from threading import Event
from typing import Final

from cases.case import Case
from cases.conventions import PaddingPromise
from cases.dtypes import DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.asking import Contestant
from harness.client import WorkerClient
from harness.faults.worker import About
from harness.generation import LARGE, Scheduled
from harness.judge import Judgement, judge
from harness.padding import check
from harness.plan import Plan
from oracles.batched.dispatch import expect
from oracles.expectation import Expectation

_PADDING: Final = "padding"

_latest = lru_cache(maxsize=4)(realise)


class Stopped(Exception):
    """The hunt was called off."""


class Fate(StrEnum):
    """What becomes of a fault in one dtype."""

    CAUGHT = "caught"
    DROWNED = "drowned"
    ABSENT = "absent"
    EQUIVALENT = "equivalent"
    LARGE = "needs large batches"
    ESCAPED = "escaped"
    FALSE_ALARM = "false alarm"

    @property
    def fails(self) -> bool:
        """Whether it is not as it should be."""
        return self in (Fate.ESCAPED, Fate.FALSE_ALARM)


@dataclass(frozen=True)
class Hunted:
    """One fault in one dtype.

    `cases` is the number of the first case that failed, among those of a cell, counted from 1; `phase` is the one
    that it belongs to; `cell` and `message` say what failed, and `witness` is that case. Where none did, `cases`
    counts those that were put, and `nearest` is the largest error / bound among them.
    """

    about: About
    dtype: str
    fate: Fate
    cases: int = 0
    phase: str = ""
    cell: str = ""
    message: str = ""
    nearest: float = 0.0
    witness: Case | None = None


@dataclass(frozen=True)
class _Cell:
    loss_type: LossType
    level: Level
    beta: float

    def __str__(self) -> str:
        return f"{self.loss_type} {self.level} beta {self.beta:g}"


class Hunt:
    """The cases of a plan in one dtype, with what is right kept for all faults that are put them."""

    def __init__(self, plan: Plan, dtype: DType, entries: Sequence[Scheduled], stopped: Event) -> None:
        self._plan = replace(plan, dtypes=(dtype,))
        self._dtype = dtype
        self._entries = entries
        self._stopped = stopped
        self._cases: dict[tuple[int, _Cell], Case] = {}
        self._expectations: dict[str, Expectation] = {}

    def hunted(self, about: About, client: WorkerClient) -> Hunted:
        """What becomes of a fault that the client has opened. Raises `TargetUnavailable`, and `Stopped`."""
        if self._dtype.name not in about.dtypes:
            return Hunted(about, self._dtype.name, Fate.ABSENT)
        if about.large and not self._plan.large:
            return Hunted(about, self._dtype.name, Fate.LARGE)
        one = Contestant(client, client.facts, self._plan.device)
        leak = self._leak(about, one)
        if leak is not None:
            return leak
        hopeless = about.equivalent or self._dtype.name in about.drowned
        put, nearest = 0, 0.0
        for entry in self._entries_for(about):
            for cell in self._cells(about, entry, hopeless):
                if self._stopped.is_set():
                    raise Stopped
                found = self._judged(entry, cell, one)
                if found is None:
                    continue
                put += 1
                if found.verdict.fails:
                    caught = Fate.FALSE_ALARM if about.equivalent else Fate.CAUGHT
                    where = (entry.phase, str(cell), found.message)
                    witness = self._case(entry, cell)
                    return Hunted(about, self._dtype.name, caught, entry.number + 1, *where, witness=witness)
                nearest = max([nearest, *(r for r in (found.loss.ratio, found.gradient.ratio) if r == r)])
        fate = Fate.ESCAPED
        if hopeless:
            fate = Fate.EQUIVALENT if about.equivalent else Fate.DROWNED
        return Hunted(about, self._dtype.name, fate, put, nearest=nearest)

    def _entries_for(self, about: About) -> Sequence[Scheduled]:
        """All descriptions, but for a fault that only large batches show."""
        return [entry for entry in self._entries if entry.phase == LARGE] if about.large else self._entries

    def _cells(self, about: About, entry: Scheduled, hopeless: bool) -> list[_Cell]:
        """Where a description is put to a fault: in every cell that it claims.

        What is not expected to be caught is put one case of each description, in each cell in turn.
        """
        loss_types = [one for one in self._plan.loss_types if one in about.loss_types]
        levels = [one for one in self._plan.levels if one in about.levels]
        cells = [_Cell(*parts) for parts in product(loss_types, levels, self._plan.betas)]
        return [cells[entry.number % len(cells)]] if hopeless and cells else cells

    def _leak(self, about: About, one: Contestant) -> Hunted | None:
        """The first promise on padding that a fault breaks, of those that promise more than everybody must."""
        if set(one.promises) == {PaddingPromise.FINITE}:
            return None
        for checked in check(self._plan, [one]):
            if checked.record is not None:
                fate = Fate.FALSE_ALARM if about.equivalent else Fate.CAUGHT
                record = checked.record
                cell = f"{record.cell.loss_type} {record.cell.level} beta {record.cell.beta:g}"
                return Hunted(
                    about, self._dtype.name, fate, 0, _PADDING, cell, record.message, witness=checked.case
                )
        return None

    def _judged(self, entry: Scheduled, cell: _Cell, one: Contestant) -> Judgement | None:
        """How a case ends; None where the fault changes nothing for want of an option."""
        case = self._case(entry, cell)
        outcome = one.client.ask(case, one.device)
        if outcome.status == "unsupported":
            return None
        expectation = expect(case) if entry.phase == LARGE else self._expectation(case)
        return judge(case, expectation, outcome)

    def _case(self, entry: Scheduled, cell: _Cell) -> Case:
        if entry.phase == LARGE:
            # Only the latest are kept: all of them together would take gigabytes.
            batch = _latest(entry.description, self._dtype, cell.level)
            return case_for(entry.description, batch, cell.loss_type, cell.level, cell.beta)
        if (entry.number, cell) not in self._cases:
            batch = realise(entry.description, self._dtype, cell.level)
            for loss_type, beta in product(self._plan.loss_types, self._plan.betas):
                case = case_for(entry.description, batch, loss_type, cell.level, beta)
                self._cases[entry.number, _Cell(loss_type, cell.level, beta)] = case
        return self._cases[entry.number, cell]

    def _expectation(self, case: Case) -> Expectation:
        if case.id not in self._expectations:
            self._expectations[case.id] = expect(case)
        return self._expectations[case.id]
