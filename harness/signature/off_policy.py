"""Whether an off-policy mask drops other tokens than it should."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from cases.case import Case
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Explanation
from oracles.batched.dispatch import expect
from reports.records import Verdict

_MOST_ROWS = 5


def off_policy(evidence: Evidence) -> Iterator[Explanation]:
    """Told where, in every failing case, some completions that lose their policy term explain the answer."""
    masked = [one for one in evidence.numbers if one.case.spec.off_policy_mask_threshold is not None]
    small = [one for one in masked if one.case.batch.rows <= _MOST_ROWS]
    if not small or len(masked) < len(evidence.numbers):
        return
    explained = sum(any(one.explained_by(expect(case), case) for case in _droppings(one)) for one in small)
    yield Explanation("off-policy mask drops other tokens than it should", explained / len(small))


def _droppings(one: Answered) -> Iterator[Case]:
    """The case with the policy terms of some completions dropped: of negative advantages, or of all."""
    case = one.case
    if one.judgement.verdict is Verdict.CONFORMS:
        return
    advantages = case.batch.token_advantages
    for rows, every in product(product((False, True), repeat=case.batch.rows), (False, True)):
        dropped = np.array(rows)[:, None] & (every | (advantages < 0))
        spec = replace(case.spec, off_policy_mask_threshold=None)
        yield replace(case, spec=spec, batch=replace(case.batch, advantages=np.where(dropped, 0.0, advantages)))
