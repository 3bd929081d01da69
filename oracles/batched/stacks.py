"""Many cases at once: those of one formula are evaluated together, as if they were one batch.

Most of what a small case costs is the number of operations on arrays, not their length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from cases.case import Case
from cases.spec import LossSpec
from oracles.batched.expectation import expect, together
from oracles.batched.layout import PIECE, judged_tokens
from oracles.batched.shared import token_wise
from oracles.expectation import Expectation

MOST: Final = 64
"""Cases that are evaluated together: beyond that, little is gained."""


def expect_all(cases: Sequence[Case]) -> list[Expectation]:
    """What `oracles.batched.expectation.expect` says of each case to the bit, with the bound of its dtype."""
    found: dict[int, Expectation] = {}
    for numbers in stacks(cases):
        stack = [cases[number] for number in numbers]
        found.update(zip(numbers, together(stack) if len(stack) > 1 else [expect(stack[0])], strict=True))
    return [found[number] for number in range(len(cases))]


def stacks(cases: Sequence[Case]) -> Iterator[list[int]]:
    """The cases by their numbers, those together that can be evaluated together.

    Stacks whose token losses are the same come one after the other, so that these are shared.
    """
    by_formula: defaultdict[Hashable, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, case in enumerate(cases):
        by_formula[formula_of(case)][case.spec.loss_type].append(number)
    for by_loss in by_formula.values():
        for numbers in by_loss.values():
            yield from _cut(cases, numbers)


def _cut(cases: Sequence[Case], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Stacks of at most `MOST` cases and `PIECE` tokens; without tokens, and beyond that, a case is alone."""
    stack: list[int] = []
    size = 0
    for number in numbers:
        tokens = judged_tokens(cases[number])
        if not 0 < tokens <= PIECE:
            yield [number]
            continue
        if stack and (size + tokens > PIECE or len(stack) == MOST):
            yield stack
            stack, size = [], 0
        stack.append(number)
        size += tokens
    if stack:
        yield stack


def formula_of(case: Case) -> Hashable:
    """What the token losses of cases that are evaluated together have in common."""
    batch = case.batch
    absent = batch.old_logps is None, batch.sampling_logps is None, batch.importance_ratio is None
    return batch.dtype.name, absent, _terms(case.spec)


@lru_cache(maxsize=4096)
def _terms(spec: LossSpec) -> Hashable:
    """Which terms a loss has, whatever their numbers."""
    return (
        token_wise(spec).loss_type,
        spec.importance_sampling_level,
        spec.kl_estimator if spec.beta > 0 else None,
        spec.delta is None,
        spec.off_policy_mask_threshold is None,
        spec.conventions,
    )
