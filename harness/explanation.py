"""One case explained: how it ended, what is wrong, and where its loss comes from, token by token."""

from __future__ import annotations

from collections.abc import Iterator

from cases.case import Case
from harness.replay import Replayed
from harness.signature.evidence import Answered, Evidence, Where
from harness.signature.signature import signature
from harness.token_table import token_table
from oracles.expectation import expect

_NOWHERE = Where({}, {}, 0, 0)


def explanation(replayed: Replayed) -> Iterator[str]:
    """What there is to say of a case that was put to a target."""
    yield from replayed.lines()
    if replayed.judgement.verdict.fails:
        answered = Answered(replayed.case, replayed.outcome)
        found = signature(Evidence((answered,), (), _NOWHERE))
        doubt = "" if found.explains else " (of this case alone; not all of it is accounted for)"
        yield f"  reason: {found.text}{doubt}"
    yield from token_table(replayed.case, replayed.expectation, replayed.outcome)


def expected(case: Case) -> Iterator[str]:
    """What the formula gives for a case."""
    spec = case.spec
    expectation = expect(case)
    dtype = case.batch.dtype.name
    yield f"{spec.loss_type} {spec.importance_sampling_level} beta {spec.beta:g} {dtype}  case {case.id}"
    yield f"  the formula gives a loss of {expectation.loss.high[0]:.17g} within {expectation.loss.bound[0]:.2g}"
    yield from token_table(case, expectation)
