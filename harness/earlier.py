"""What a run that was cut short had judged before, so that resuming it asks nothing twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from cases.case import Case
from harness.errors import UsageError
from harness.generation import SCHEDULED
from reports.records import Record
from reports.run import Run

_MUST_MATCH: Final = ("lossgate", "versions")


@dataclass(frozen=True)
class Earlier:
    """The records of a run so far, by phase and in order, and where its cases lie."""

    path: Path | None = None
    judged: tuple[Record, ...] = ()
    padding: tuple[Record, ...] = ()
    shrunk: tuple[Record, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run) -> Self:
        """What `run` has on disk."""
        records = list(run.records())
        return cls(
            path=run.path,
            judged=tuple(record for record in records if record.phase in SCHEDULED),
            padding=tuple(record for record in records if record.phase == "padding"),
            shrunk=tuple(record for record in records if record.phase == "shrunk"),
            facts=run.facts,
        )

    def shrunk_case(self, record: Record) -> Case:
        """The case of a record of a shrunk case, which was kept when it was made."""
        assert self.path is not None
        text = (self.path / "cases" / f"{record.case_id}.json").read_text(encoding="utf-8")
        return Case.from_json(text)

    def check_provenance(self, now: dict[str, Any]) -> None:
        """Raises `UsageError` where this lossgate, or what its numbers pass through, is not what began the run."""
        for name in _MUST_MATCH:
            if self.facts.get(name) != now[name]:
                raise _other(name, self.facts.get(name), now[name])

    def check_targets(self, now: dict[str, Any]) -> None:
        """Raises `UsageError` where the targets are not those that the run began with."""
        before = self.facts.get("targets")
        if before is not None and before != now:
            raise _other("targets", before, now)


def matching(stored: Sequence[Record], case_id: str) -> Record:
    """The first stored record. Raises `UsageError` when it belongs to another case than the one that is due."""
    if stored[0].case_id != case_id:
        raise UsageError(
            f"the run's next record is of case {stored[0].case_id}, due is {case_id}: it is another schedule",
            "start a new run",
        )
    return stored[0]


def _other(what: str, before: Any, now: Any) -> UsageError:
    return UsageError(f"the run began with other {what}: {before}, now {now}", "start a new run")


NOTHING: Final = Earlier()
