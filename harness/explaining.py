"""The failing cells of a run explained: their telling cases are put again, and a signature is read off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cases.case import Case
from harness.asking import Contestant
from harness.events import CellExplained
from harness.signature.evidence import Answered, Evidence, Suspect
from harness.signature.signature import signature, strongest_first
from reports.records import Verdict

MOST_FAILING = 20
MOST_CONFORMING = 10
TELLING_TOKENS = 9

_UNREPEATABLE = {
    Verdict.NONDETERMINISTIC: "two answers to the same case differ by more than rounding",
    Verdict.CRASH: "its process dies",
    Verdict.TIMEOUT: "it does not answer in time",
}


def explained(suspects: Iterable[Suspect], contestants: Sequence[Contestant]) -> Iterator[CellExplained]:
    """What is wrong with each failing cell."""
    by_label = {one.facts.label: one for one in contestants}
    for suspect in suspects:
        if suspect.verdict in _UNREPEATABLE:
            yield CellExplained(suspect.cell, _UNREPEATABLE[suspect.verdict], explains=False)
            continue
        if not suspect.failing:
            yield CellExplained(suspect.cell, "what stands at masked positions changes the answer", explains=False)
            continue
        found = signature(_evidence(suspect, by_label[suspect.cell.target]))
        yield CellExplained(suspect.cell, found.text, found.explains)


def _evidence(suspect: Suspect, one: Contestant) -> Evidence:
    def answered(cases: Sequence[Case]) -> tuple[Answered, ...]:
        return tuple(strongest_first([Answered(case, one.client.ask(case, one.device)) for case in cases]))

    # Large cases tell no more than small ones, and take long; of those that conform, tiny ones conform to much.
    failing = sorted(suspect.failing, key=lambda case: case.batch.mask.size)[:MOST_FAILING]
    conforming = sorted(suspect.conforming, key=lambda case: abs(case.batch.tokens - TELLING_TOKENS))
    return Evidence(answered(failing), answered(conforming[:MOST_CONFORMING]), suspect.where)
