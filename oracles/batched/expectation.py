"""What an implementation must answer, evaluated on whole arrays: `oracles.expectation` for batches of any size."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from itertools import product
from typing import Final

import numpy as np

from cases.case import Case
from cases.conventions import KLAggregation
from cases.dtypes import DType, FloatArray
from oracles.batched.aggregation import Aggregation, Step, Sums
from oracles.batched.arithmetic import Arithmetic, arithmetic_for
from oracles.batched.decisions import Choice, Outcomes, Survey, survey
from oracles.batched.layout import PIECE, Layout, Piece
from oracles.batched.losses import token_losses
from oracles.batched.shared import Evaluated, Shared
from oracles.batched.tape import BeyondFloat64, Tape
from oracles.batched.terms import Terms
from oracles.contract import Contract
from oracles.expectation import MOST_JUMPS, SLACK, Exact, Expectation
from oracles.expectation import expect as literally

OWN_FACTOR: Final = 8.0
"""Room for the roundings of our own bound, and of what is of second order in it."""

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
        return _expect(case, contract, piece)
    except BeyondFloat64:
        return literally(case, contract)


@lru_cache(maxsize=16)
def _contract(dtype: DType) -> Contract:
    return Contract.of(dtype)


def _expect(case: Case, contract: Contract, piece: int) -> Expectation:
    layout = Layout(case)
    if not layout.tokens:
        return literally(case, contract)
    arithmetic = arithmetic_for(contract)
    with np.errstate(all="ignore"):
        first, jumps = _once(case, contract, arithmetic, layout, piece, ())
        if not jumps:
            return first
        ways = product((False, True), repeat=min(jumps, MOST_JUMPS))
        others = tuple(_once(case, contract, arithmetic, layout, piece, assumed)[0] for assumed in ways)
    return replace(first, others=others)


def _once(
    case: Case,
    contract: Contract,
    arithmetic: Arithmetic,
    layout: Layout,
    piece: int,
    assumed: tuple[bool, ...],
) -> tuple[Expectation, int]:
    """One expectation, and how many jumps rounding leaves undecided."""
    aggregation = Aggregation(case, layout, contract, arithmetic)
    pieces = list(layout.pieces(piece))
    step: Step | None = None
    separate = case.spec.beta > 0 and case.spec.conventions.kl_aggregation is KLAggregation.TOKEN_MEAN
    if len(pieces) > 1:
        nothing = Sums.nothing(layout.rows.size)
        step = aggregation.step(nothing, nothing if separate else None)
    policy, kl, surveys, jumps = [], [], [], 0
    overflows = False
    for one in pieces:
        evaluate = partial(_evaluate, case, contract, arithmetic, one, assumed[jumps:])
        alone = len(pieces) == 1
        done = _SHARED.evaluated(case, contract, assumed, evaluate) if alone else evaluate()
        jumps += done.jumps
        policy.append(Sums.of(done.losses))
        if done.kl is not None:
            kl.append(Sums.of(done.kl))
        if step is None:
            step = aggregation.step(policy[0], kl[0] if kl else None)
        seeds = [(done.losses, aggregation.seed(step.policy, one))]
        if done.kl is not None and step.kl is not None:
            seeds.append((done.kl, aggregation.seed(step.kl, one)))
        surveys.append(survey(done.tape, done.leaf, seeds, one.positions, alone))
        if not alone:
            # Arrays and their tape hold each other: a large batch would wait for the garbage collector.
            done.tape.nodes.clear()
        overflows = overflows or done.tape.overflows
    if len(pieces) > 1:
        step = aggregation.step(Sums.joined(policy), Sums.joined(kl) if separate else None)
    assert step is not None
    return _assembled(case, step, surveys, overflows, contract, arithmetic), jumps


def _evaluate(
    case: Case, contract: Contract, arithmetic: Arithmetic, piece: Piece, assumed: tuple[bool, ...]
) -> Evaluated:
    tape = Tape(case.batch.dtype, contract, arithmetic, piece.runs)
    terms = Terms(case, piece, tape, assumed)
    losses = token_losses(terms)
    kl = terms.kl(terms.ratios()) if terms.kl_by_itself else None
    return Evaluated(piece, tape, terms.logp, losses, kl, terms.undecided_jumps)


def _assembled(
    case: Case,
    step: Step,
    surveys: list[Survey],
    overflows: bool,
    contract: Contract,
    arithmetic: Arithmetic,
) -> Expectation:
    shape = case.batch.mask.shape
    slack = SLACK + OWN_FACTOR * arithmetic.unit / min(contract.u, contract.u_sum)
    flags = np.zeros(shape, dtype=bool)
    for one in surveys:
        if one.overflowing is not None:
            flags.reshape(-1)[one.positions] = one.overflowing
    if step.spoils:
        flags |= case.batch.mask
    outcomes = Outcomes(surveys)
    gradients = tuple(_gradient(shape, surveys, choice, slack) for choice in outcomes.choices)
    high, low = step.value
    bound = step.radius * slack + abs(low) * 2.0**-52
    if np.isnan(bound):
        bound = np.inf
    return Expectation(
        loss=Exact(np.array([high]), np.array([low]), np.array([bound])),
        loss_overflows=overflows or step.overflows,
        gradients=gradients,
        hull=outcomes.hull(shape),
        gradient_overflows=flags,
    )


def _gradient(shape: tuple[int, ...], surveys: list[Survey], choice: Choice, slack: float) -> Exact:
    arrays = [np.zeros(shape) for _ in range(3)]
    flat: list[FloatArray] = [array.reshape(-1) for array in arrays]
    for one in surveys:
        adjoint = one.taken(choice)
        if adjoint is None:
            continue
        at = one.positions
        flat[0][at], flat[1][at] = adjoint.value
        flat[2][at] = np.where(np.isnan(adjoint.radius), np.inf, adjoint.radius * slack)
        if isinstance(adjoint.value[1], np.ndarray):
            flat[2][at] += np.where(adjoint.radius > 0.0, np.abs(adjoint.value[1]) * 2.0**-52, 0.0)
    return Exact(*arrays)
