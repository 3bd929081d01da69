"""The failing cells of a run explained: their telling cases are put again, and a signature is read off.

So are cells that fail as expected, where it was said what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cases.case import Case
from harness.asking import Contestant
from harness.events import CellExplained, ExpectationChecked
from harness.padding import read_at_masked_positions
from harness.signature.evidence import Answered, Evidence, Suspect
from harness.signature.selection import conforming_ones, failing_ones
from harness.signature.signature import Search, Signature, accounts, strongest_first
from reports.records import Verdict

MOST_DIRTIED = 4

ONLY_LARGE = "only large batches fail"
"""What is not kept to be looked at again is large, or was put to check padding hygiene."""

_UNREPEATABLE = {
    Verdict.NONDETERMINISTIC: "two answers to the same case differ by more than rounding",
    Verdict.CRASH: "its process dies",
    Verdict.TIMEOUT: "it does not answer in time",
}


def explained(suspects: Iterable[Suspect], contestants: Sequence[Contestant]) -> Iterator[CellExplained]:
    """What is wrong with each failing cell."""
    by_label = {one.facts.label: (one, Search()) for one in contestants}
    for suspect in suspects:
        yield _explained(suspect, *by_label[suspect.cell.target])


def expectations_checked(
    suspects: Iterable[tuple[int, Suspect]], contestants: Sequence[Contestant]
) -> Iterator[ExpectationChecked]:
    """What is wrong with each cell that an entry of the expectations covers, and the entry's number."""
    by_label = {one.facts.label: (one, Search()) for one in contestants}
    for number, suspect in suspects:
        found = _explained(suspect, *by_label[suspect.cell.target])
        yield ExpectationChecked(number, suspect.cell, found.signature)


def _explained(suspect: Suspect, one: Contestant, search: Search) -> CellExplained:
    if suspect.verdict in _UNREPEATABLE:
        return CellExplained(suspect.cell, _UNREPEATABLE[suspect.verdict], explains=False)
    if not suspect.failing:
        words = ONLY_LARGE if suspect.where.failing_cases else "what stands at masked positions changes the answer"
        return CellExplained(suspect.cell, words, explains=False)
    evidence = _evidence(suspect, one)
    found = search.signature(evidence)
    if suspect.expected not in ("", found.text) and accounts(evidence, suspect.expected):
        # Several explanations may account for few cases: what was said of them holds.
        found = Signature(suspect.expected, explains=True)
    if not found.explains:
        read = _read_at_masked_positions(evidence, one)
        if read:
            verb = "enter" if len(read) > 1 else "enters"
            words = f"{', '.join(read)} {verb} at masked positions; {found.what}"
            return CellExplained(suspect.cell, words, explains=False)
    return CellExplained(suspect.cell, found.text, found.explains)


def _read_at_masked_positions(evidence: Evidence, one: Contestant) -> tuple[str, ...]:
    """The tensors that a target reads where it should not."""
    masked = [answered.case for answered in evidence.numbers if not answered.case.batch.mask.all()]
    read = dict.fromkeys(name for case in masked[:MOST_DIRTIED] for name in read_at_masked_positions(one, case))
    return tuple(read)


def _evidence(suspect: Suspect, one: Contestant) -> Evidence:
    def answered(cases: Sequence[Case]) -> tuple[Answered, ...]:
        return tuple(strongest_first([Answered(case, one.client.ask(case, one.device)) for case in cases]))

    failing, conforming = failing_ones(suspect.failing), conforming_ones(suspect.conforming)
    return Evidence(answered(failing), answered(conforming), suspect.where)
