"""What an implementation must answer, evaluated on whole arrays: `oracles.expectation` for batches of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Final

import numpy as np

from cases.case import Case
from cases.conventions import KLAggregation
from cases.dtypes import DType
from oracles.batched.aggregation import Aggregation, Step, Sums
from oracles.batched.answers import Answers
from oracles.batched.arithmetic import Arithmetic, arithmetic_for
from oracles.batched.decisions import survey
from oracles.batched.layout import PIECE, Layout, Piece
from oracles.batched.losses import token_losses
from oracles.batched.shared import Evaluated, Shared
from oracles.batched.tape import BeyondFloat64, Tape
from oracles.batched.terms import Terms
from oracles.contract import Contract
from oracles.expectation import MOST_JUMPS, Expectation
from oracles.expectation import expect as literally

_SHARED: Final = Shared()


def expect(case: Case, contract: Contract | None = None, piece: int = PIECE) -> Expectation:
    """Evaluate the oracle of a case, with the bound of its dtype or of another contract.

    Equal to the literal oracle but for what our own arithmetic adds to the bound, in pieces of at most `piece`
    tokens or one completion. A case without tokens, or with numbers at the end of float64, is left to
    the literal one, and so is a contract that allows more than the ordinary one.
    """
    contract = contract or _contract(case.batch.dtype)
    if not contract.is_ordinary:
        return literally(case, contract)
    try:
        layout = Layout([case])
        return _expect(layout, contract, piece)[0] if layout.tokens else literally(case, contract)
    except BeyondFloat64:
        return literally(case, contract)


def together(cases: Sequence[Case]) -> list[Expectation]:
    """Evaluate the oracle of cases of one formula at once: of one dtype, which differ in their numbers only.

    Each has tokens. What `expect` says of each to the bit, with the bound of its dtype.
    """
    contract = _contract(cases[0].batch.dtype)
    try:
        return _expect(Layout(cases), contract, PIECE)
    except BeyondFloat64:
        if len(cases) == 1:
            return [literally(cases[0], contract)]
        middle = len(cases) // 2
        return together(cases[:middle]) + together(cases[middle:])


@lru_cache(maxsize=16)
def _contract(dtype: DType) -> Contract:
    return Contract.of(dtype)


def _expect(layout: Layout, contract: Contract, piece: int) -> list[Expectation]:
    arithmetic = arithmetic_for(contract)
    with np.errstate(all="ignore"):
        found, jumps = _once(layout, contract, arithmetic, piece, ())
        for number in {min(own, MOST_JUMPS) for own in jumps} - {0}:
            those = [case for case, own in enumerate(jumps) if min(own, MOST_JUMPS) == number]
            alike = layout if len(those) == len(jumps) else Layout([layout.cases[case] for case in those])
            ways = product((False, True), repeat=number)
            others = [_once(alike, contract, arithmetic, piece, assumed)[0] for assumed in ways]
            for case, own in zip(those, zip(*others, strict=True), strict=True):
                found[case] = replace(found[case], others=own)
    return found


def _once(
    layout: Layout, contract: Contract, arithmetic: Arithmetic, piece: int, assumed: tuple[bool, ...]
) -> tuple[list[Expectation], list[int]]:
    """One expectation of each case, and how many jumps rounding leaves undecided in it."""
    spec = layout.cases[0].spec
    aggregation = Aggregation(layout, contract, arithmetic)
    pieces = list(layout.pieces(piece))
    step: Step | None = None
    separate = spec.beta > 0 and spec.conventions.kl_aggregation is KLAggregation.TOKEN_MEAN
    if len(pieces) > 1:
        nothing = Sums.nothing(layout.rows.size)
        step = aggregation.step(nothing, nothing if separate else None)
    policy, kl, surveys = [], [], []
    jumps = [0] * len(layout.cases)
    overflows = np.zeros(len(layout.cases), dtype=bool)
    for one in pieces:
        evaluate = partial(_evaluate, contract, arithmetic, one, assumed[jumps[0] :])
        alone = len(pieces) == 1
        done = _SHARED.evaluated(layout.cases, contract, assumed, evaluate) if alone else evaluate()
        jumps = [before + own for before, own in zip(jumps, done.jumps, strict=True)]
        policy.append(Sums.of(done.losses))
        if done.kl is not None:
            kl.append(Sums.of(done.kl))
        if step is None:
            step = aggregation.step(policy[0], kl[0] if kl else None)
        seeds = [(done.losses, aggregation.seed(step.policy, one))]
        if done.kl is not None and step.kl is not None:
            seeds.append((done.kl, aggregation.seed(step.kl, one, layout.case_of)))
        surveys.append(survey(done.tape, done.leaf, seeds, one.positions, alone))
        if not alone:
            # Arrays and their tape hold each other: a large batch would wait for the garbage collector.
            done.tape.nodes.clear()
        overflows = overflows | done.tape.overflows
    if len(pieces) > 1:
        step = aggregation.step(Sums.joined(policy), Sums.joined(kl) if separate else None)
    assert step is not None
    answers = Answers(layout.cases, step, surveys, overflows, contract, arithmetic)
    return [answers.expectation(number) for number in range(len(layout.cases))], jumps


def _evaluate(contract: Contract, arithmetic: Arithmetic, piece: Piece, assumed: tuple[bool, ...]) -> Evaluated:
    tape = Tape(piece.cases[0].batch.dtype, contract, arithmetic, piece.runs, piece.owners)
    terms = Terms(piece, tape, assumed)
    losses = token_losses(terms)
    kl = terms.kl(terms.ratios()) if terms.kl_by_itself else None
    return Evaluated(piece, tape, terms.logp, losses, kl, terms.undecided_jumps)
