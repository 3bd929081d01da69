"""Advantages that the loss normalises once more.

What the target computes from the advantages is rounded on the way: the bound is that of a few roundings more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from cases.case import Case
from cases.dtypes import FLOAT32, FloatArray
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Hypothesis
from oracles.batched.dispatch import expect
from oracles.contract import Contract

_ROUNDINGS: Final = 16.0

Again = Callable[[FloatArray], FloatArray]


def renormalised(evidence: Evidence) -> Iterator[Hypothesis]:
    """What may be done to the advantages once more.

    Not in half types: a few roundings of theirs explain too much.
    """
    if any(one.case.batch.dtype.unit_roundoff > FLOAT32.unit_roundoff for one in evidence):
        return
    for words, made in _AGAIN.items():

        def explains(one: Answered, made: Again = made) -> bool:
            case = _other(one.case, made)
            if case is None or case.id == one.case.id:
                return one.is_right
            contract = Contract.of(case.batch.dtype)
            return one.explained_by(expect(case, replace(contract, u=_ROUNDINGS * contract.u)), case)

        def told(_: Answered, words: str = words) -> str:
            return words

        yield Hypothesis(evidence, explains, _always, told)


def _always(_: Answered) -> bool:
    return True


def _other(case: Case, made: Again) -> Case | None:
    with np.errstate(all="ignore"):
        values = made(case.batch.advantages)
    if not np.isfinite(values).all():
        return None
    return replace(case, batch=replace(case.batch, advantages=case.batch.dtype.round(values)))


def _normalised(ddof: int, epsilon: float) -> Again:
    def made(values: FloatArray) -> FloatArray:
        if values.size <= ddof:
            return values
        normalised: FloatArray = (values - values.mean()) / (values.std(ddof=ddof) + epsilon)
        return normalised

    return made


def _scaled(ddof: int, epsilon: float) -> Again:
    def made(values: FloatArray) -> FloatArray:
        scaled: FloatArray = values / (values.std(ddof=ddof) + epsilon) if values.size > ddof else values
        return scaled

    return made


def _centred(values: FloatArray) -> FloatArray:
    centred: FloatArray = values - values.mean()
    return centred


def _to_one(values: FloatArray) -> FloatArray:
    largest = np.abs(values).max()
    scaled: FloatArray = values / largest if largest else values
    return scaled


_AGAIN: Final[dict[str, Again]] = {
    "advantages centred again": _centred,
    **{
        f"advantages normalised again{of}{added}": _normalised(ddof, epsilon)
        for epsilon, added in (
            (1e-8, ""),
            (1e-6, ", 1e-6 added to it"),
            (1e-5, ", 1e-5 added to it"),
            (1e-4, ", 1e-4 added to it"),
        )
        for ddof, of in (
            (1, " by the sample's standard deviation"),
            (0, " by the population's standard deviation"),
        )
    },
    "advantages divided by their standard deviation again": _scaled(1, 1e-8),
    "advantages divided by the largest of them": _to_one,
}
