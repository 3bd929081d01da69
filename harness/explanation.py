"""One case explained: how it ended, what is wrong, and where its loss comes from, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cases.case import Case
from harness.reason import alone, of_the_cell
from harness.replay import Replayed
from harness.signature.evidence import Answered
from harness.token_table import token_table
from oracles.batched.dispatch import expect


def explanation(replayed: Replayed, path: Path) -> Iterator[str]:
    """What there is to say of a case that was put to a target; `path` is its file, in a run or not."""
    yield from replayed.lines()
    if replayed.judgement.verdict.fails:
        whole = of_the_cell(replayed.cell, path)
        if whole:
            yield f"  reason, from all cases of the cell: {whole}"
        else:
            yield f"  what would explain this case alone: {alone(Answered(replayed.case, replayed.outcome))}"
    yield from token_table(replayed.case, replayed.expectation, replayed.outcome)


def expected(case: Case) -> Iterator[str]:
    """What the formula gives for a case."""
    spec = case.spec
    expectation = expect(case)
    dtype = case.batch.dtype.name
    yield f"{spec.loss_type} {spec.importance_sampling_level} beta {spec.beta:g} {dtype}  case {case.id}"
    yield f"  the formula gives a loss of {expectation.loss.high[0]:.17g} within {expectation.loss.bound[0]:.2g}"
    yield from token_table(case, expectation)
