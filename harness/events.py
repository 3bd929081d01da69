"""What happens in a run, as typed events; the terminal and the files are handlers of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from cases.case import Case
from cases.conventions import PaddingPromise
from harness.timings import Timings
from reports.records import Cell, Record
from reports.token_table import TokenTable


@dataclass(frozen=True)
class RunStarted:
    """All targets answered: what they say of themselves, by label. `questions` cases will be put to them."""

    targets: Mapping[str, Any]
    questions: int


@dataclass(frozen=True)
class CaseJudged:
    """One case was judged in one cell; `seconds` is the time in the target's own call.

    `stored`: it was judged in an earlier part of a run that is resumed, and its record is on disk.
    """

    record: Record
    case: Case
    seconds: float
    stored: bool = False


@dataclass(frozen=True)
class Shrinking:
    """A failing cell's witness is about to be made smaller."""

    cell: Cell


@dataclass(frozen=True)
class CellExplained:
    """What is wrong with a failing cell, in one line; `explains` where that accounts for every number seen."""

    cell: Cell
    signature: str
    explains: bool

    def as_facts(self) -> dict[str, Any]:
        """The finding as JSON data."""
        return {**asdict(self.cell), "signature": self.signature, "explains": self.explains}


@dataclass(frozen=True)
class ExpectationChecked:
    """What is wrong with a cell that an entry of the expectations covers, by the entry's number, in one line."""

    entry: int
    cell: Cell
    signature: str


@dataclass(frozen=True)
class PaddingChecked:
    """One line of padding hygiene was checked on one case: `tensors` are those whose masked positions leak.

    `record` is there where a promise failed, which is a divergence.
    """

    cell: Cell
    line: PaddingPromise
    promised: bool
    tensors: tuple[str, ...]
    record: Record | None
    case: Case
    stored: bool = False


@dataclass(frozen=True)
class RunFinished:
    """The run ended; `complete` is False where it was cut short. `witnesses` are the cells'."""

    facts: Mapping[str, Any]
    complete: bool
    witnesses: tuple[Case, ...]


@dataclass(frozen=True)
class Reproduced:
    """A failing cell's witness is a script now, which needs nothing of ours; `name` is that of its file."""

    name: str
    script: str


@dataclass(frozen=True)
class Tabled:
    """A failing cell's witness token by token; `name` is that of its file."""

    name: str
    table: TokenTable


@dataclass(frozen=True)
class Timed:
    """Where the time went."""

    timings: Timings


Event = (
    RunStarted
    | CaseJudged
    | Shrinking
    | CellExplained
    | ExpectationChecked
    | PaddingChecked
    | Reproduced
    | Tabled
    | Timed
    | RunFinished
)


class Handler(Protocol):
    """Takes every event of a run, in order."""

    def __call__(self, event: Event) -> None: ...
