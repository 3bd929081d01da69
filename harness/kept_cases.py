"""A few cases of each phase of a run, kept to read off them what is wrong."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from cases.case import Case
from harness.events import CaseJudged
from harness.generation import PHASES

KEPT: Final = 16


class KeptCases:
    """Keeps the first cases of each phase whose cases are small, as many as `KEPT`."""

    def __init__(self) -> None:
        self._by_phase: defaultdict[str, list[Case]] = defaultdict(list)

    def add(self, judged: CaseJudged) -> None:
        """Keep a case, if it is small and there is room."""
        kept = self._by_phase[judged.record.phase]
        if judged.record.phase in PHASES and len(kept) < KEPT:
            kept.append(judged.case)

    @property
    def cases(self) -> tuple[Case, ...]:
        """What was kept, in the order of the phases."""
        return tuple(case for phase in PHASES for case in self._by_phase[phase])
