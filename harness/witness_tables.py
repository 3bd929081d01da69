"""The witnesses of a run's failing cells, token by token, for its reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from harness.asking import Contestant
from harness.events import CaseJudged, Tabled
from harness.token_table import tabled
from oracles.batched.dispatch import expect
from reports.file_names import witness_name
from reports.records import Verdict

_ASKED_AGAIN: Final = (Verdict.DIVERGES, Verdict.NONDETERMINISTIC)
"""Elsewhere there is no answer, and a target that dies is asked no more than the run does."""


def tables(contestants: Sequence[Contestant], failures: Iterable[tuple[CaseJudged, str]]) -> Iterator[Tabled]:
    """A table for the witness of each failing cell; where padding fails it, of what the formula gives alone."""
    by_label = {one.facts.label: one for one in contestants}
    for judged, _ in failures:
        record, case = judged.record, judged.case
        one = by_label[record.cell.target]
        is_asked = record.verdict in _ASKED_AGAIN and record.phase != "padding"
        outcome = one.client.ask(case, one.device) if is_asked else None
        name = witness_name(case.id, record.cell.target, alone=len(contestants) == 1)
        yield Tabled(f"{name}.json", tabled(case, expect(case), outcome))
