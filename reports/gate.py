"""A run as a gate sees it: which cells pass, which do not and why. JUnit, SARIF and GitHub are told the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import pandas as pd

from reports.facts import Facts
from reports.notation import one_line
from reports.records import Cell


class Status(StrEnum):
    """What a test report knows of a test."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    SKIPPED = "skipped"

    @property
    def stops(self) -> bool:
        """Whether a gate must not open."""
        return self in (Status.FAILED, Status.ERROR)


@dataclass(frozen=True)
class Source:
    """Where a loss is written. `file` is relative to the repository's root if it is `inside`, else absolute."""

    file: str
    line: int
    inside: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Subject:
    """A target: its label, the word it was asked for by on one line, and where its loss is, if that is known."""

    label: str
    word: str
    source: Source | None

    def __str__(self) -> str:
        return one_line(self.label)


@dataclass(frozen=True)
class Entry:
    """A cell and what became of it.

    * `kind`: what it is called: the verdict, or "not-judged".
    * `headline`: why it has its status, in one line; "" where it passed and there is nothing to say.
    * `details`: all that is known of a cell that stops the gate, line by line.
    """

    subject: Subject
    cell: Cell
    status: Status
    kind: str
    headline: str
    details: tuple[str, ...]
    witness: str
    seconds: float

    @property
    def name(self) -> str:
        """The cell without its target."""
        cell = self.cell
        places = [place for place, usual in ((cell.surface, "logps"), (cell.device, "cpu")) if place != usual]
        return " ".join((cell.loss_type, cell.level, f"beta {cell.beta:g}", cell.dtype, *places))


@dataclass(frozen=True)
class Problem:
    """Why a run is no pass whatever its cells are; of one target, or with `subject` None of the whole run."""

    kind: str
    sentence: str
    subject: Subject | None = None


@dataclass(frozen=True)
class Gate:
    """A run as a gate sees it.

    `warnings` are what should be looked at and stops nothing; `root` is the folder that sources are relative to,
    "" if that was not recorded.
    """

    complete: bool
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]
    subjects: tuple[Subject, ...]
    entries: tuple[Entry, ...]
    table: pd.DataFrame
    facts: Facts
    root: str

    def of(self, subject: Subject) -> tuple[Entry, ...]:
        """The cells of one target."""
        return tuple(entry for entry in self.entries if entry.subject == subject)

    @property
    def stopping(self) -> tuple[Entry, ...]:
        """The cells that stop it."""
        return tuple(entry for entry in self.entries if entry.status.stops)
