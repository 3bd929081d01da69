"""One case explained: how it ended, what is wrong, and where its loss comes from, token by token."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from cases.case import Case
from harness.replay import Replayed
from harness.signature.evidence import Answered, Evidence, Where
from harness.signature.signature import signature
from harness.token_table import token_table
from oracles.expectation import expect
from reports.records import Cell

_NOWHERE = Where({}, {}, 0, 0)


def explanation(replayed: Replayed, path: Path) -> Iterator[str]:
    """What there is to say of a case that was put to a target; `path` is its file, in a run or not."""
    yield from replayed.lines()
    if replayed.judgement.verdict.fails:
        whole = _of_the_cell(replayed.cell, path)
        if whole:
            yield f"  reason, from all cases of the cell: {whole}"
        else:
            answered = Answered(replayed.case, replayed.outcome)
            found = signature(Evidence((answered,), (), _NOWHERE))
            yield f"  what would explain this case alone: {found.text}"
    yield from token_table(replayed.case, replayed.expectation, replayed.outcome)


def _of_the_cell(cell: Cell, path: Path) -> str:
    """What the run that a case lies in says is wrong with its cell; "" where it lies in none."""
    try:
        facts = json.loads((path.resolve().parent.parent / "run.json").read_text(encoding="utf-8"))
        found = [
            one for one in facts["findings"] if all(one[name] == value for name, value in asdict(cell).items())
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return str(found[0]["signature"]) if found else ""


def expected(case: Case) -> Iterator[str]:
    """What the formula gives for a case."""
    spec = case.spec
    expectation = expect(case)
    dtype = case.batch.dtype.name
    yield f"{spec.loss_type} {spec.importance_sampling_level} beta {spec.beta:g} {dtype}  case {case.id}"
    yield f"  the formula gives a loss of {expectation.loss.high[0]:.17g} within {expectation.loss.bound[0]:.2g}"
    yield from token_table(case, expectation)
