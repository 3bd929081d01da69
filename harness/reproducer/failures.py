"""The failing cells of a run as scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from harness.asking import Contestant
from harness.events import CaseJudged, Reproduced
from harness.plan import Plan
from harness.reproducer.finding import Finding, NoScript, check_name, check_size
from harness.reproducer.script import script
from harness.reproducer.stored import off
from reports.file_names import witness_name
from reports.records import Verdict

_UNSAFE: Final = (Verdict.CRASH, Verdict.TIMEOUT)
"""A target that ends so is asked no more than the run does; `lossgate reproduce` writes its script."""


def reproduced(
    plan: Plan, contestants: Sequence[Contestant], failures: Iterable[tuple[CaseJudged, str]]
) -> Iterator[Reproduced]:
    """A script for the witness of each failing cell that can have one; with each witness comes what is wrong."""
    by_label = {one.facts.label: (word, one) for word, one in zip(plan.targets, contestants, strict=True)}
    for judged, reason in failures:
        if judged.record.verdict in _UNSAFE:
            continue
        word, one = by_label[judged.record.cell.target]
        found = _finding(plan, word, one, judged, reason)
        try:
            check_name(found.name)
            check_size(found.case)
            shown = found.leaking(one) if judged.record.phase == "padding" else found
            if shown is not None:
                name = witness_name(shown.case.id, shown.facts.label, alone=len(contestants) == 1)
                yield Reproduced(f"{name}.py", script(shown))
        except NoScript:
            continue


def _finding(plan: Plan, word: str, one: Contestant, judged: CaseJudged, reason: str) -> Finding:
    record, settings = judged.record, plan.settings_of(word)
    return Finding(
        case=judged.case,
        name=settings.name,
        python=settings.python or plan.python,
        facts=one.facts,
        device=one.device,
        verdict=record.verdict,
        message=record.message,
        reason=reason,
        off=off(record.loss, record.gradient),
    )
