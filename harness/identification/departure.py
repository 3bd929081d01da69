"""What comes closest to a target that computes no known formula, and where the two part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from cases.regions import regions_of
from cases.spec import KLEstimator, Level, LossSpec, LossType
from harness.identification.answers import Answered, Answers
from harness.judge import judge
from harness.signature.evidence import Answered as Evident
from harness.signature.evidence import Evidence, Where
from harness.signature.signature import Signature, signature, strongest_first
from oracles.space.catalogue import everyday
from oracles.space.identities import canonical
from oracles.space.names import variant_of
from oracles.space.pieces import Pieces
from oracles.space.variant import AXES, Variant

_MANY: Final = 0.5
"""The share of gradient elements that a formula must explain to be nearer than the one asked for."""


@dataclass(frozen=True)
class Departure:
    """The point that comes closest.

    * `explains`: the numbers of the probes whose answers it explains.
    * `probe`: the first that it does not explain, in words; `message`: how loss and gradient differ there.
    * `seen`: what is wrong, in words, measured against the loss `against`; `accounts`: whether that accounts for
      every number of every probe. Empty where no reason is looked for.
    """

    nearest: Variant
    explains: tuple[int, ...]
    probe: str
    message: str
    against: Variant
    seen: str
    accounts: bool


def departure(found: Answers, asked: Variant, with_reason: bool) -> Departure:
    """The nearest point, of the everyday ones and of those that are one choice away from a named loss."""
    nearest = _nearest(found, asked)
    explained = [answer for answer in found.answered if answer.explained_by(nearest)]
    beyond = next(answer for answer in found.answered if answer not in explained)
    message = judge(beyond.case, beyond.pieces.expectation(nearest), beyond.outcome).message
    against = next((spec for spec in _named(found.asked) if variant_of(spec) == nearest), found.asked)
    wrong = _wrong(found, against) if with_reason else Signature("")
    numbers = tuple(answer.number for answer in explained)
    return Departure(nearest, numbers, beyond.words, message, variant_of(against), wrong.text, wrong.explains)


def _nearest(found: Answers, asked: Variant) -> Variant:
    """What explains most probes; else most gradient elements, where these are many; else what was asked for."""
    near = [point for point in dict.fromkeys((asked, *_around(asked))) if found.expresses(point)]
    points = dict.fromkeys((*near, *(point for point in everyday() if found.expresses(point))))
    explained = {point: sum(answer.explained_by(point) for answer in found.answered) for point in points}
    most = max(explained.values())
    if most:
        best = [point for point in points if explained[point] == most]
        return min(best, key=lambda point: len(point.differences(asked)))
    # A gradient costs more than a loss: only what is near in words is looked at.
    first = found.answered[0]
    # A sheet of its own: a gradient is swept back over all that a shared one holds.
    sheet = Pieces(first.case)
    off = {point: _off(point, first, sheet) for point in near}
    nearest = min(near, key=lambda point: (off[point], len(point.differences(asked))))
    return nearest if off[nearest] <= (1.0 - _MANY) * first.case.batch.tokens else asked


def _around(asked: Variant) -> Iterator[Variant]:
    """Named losses with the KL term that is asked for, and what is one choice away from one of them."""
    named = dict.fromkeys(
        canonical(replace(asked, aggregation=one.aggregation, ratio=one.ratio, surrogate=one.surrogate))
        for loss_type in LossType
        for level in Level
        for one in [variant_of(LossSpec(loss_type, level))]
    )
    yield from named
    for point in (asked, *named):
        for axis in AXES:
            for choice in type(getattr(point, axis)):
                yield canonical(replace(point, **{axis: choice}))


def _off(point: Variant, answer: Answered, sheet: Pieces) -> int:
    """How many gradient elements of unmasked tokens a point does not explain."""
    exact = sheet.expectation(point).gradients[0]
    assert answer.outcome.gradient is not None, "an answer has a gradient"
    off = ~(exact.error(answer.outcome.gradient) <= exact.bound)
    return int(np.count_nonzero(off & answer.case.batch.mask))


def _wrong(found: Answers, spec: LossSpec) -> Signature:
    """What is wrong in all answers, measured against a named loss."""
    evident = [
        Evident(
            replace(
                answer.case,
                spec=replace(
                    answer.case.spec,
                    loss_type=spec.loss_type,
                    importance_sampling_level=spec.importance_sampling_level,
                    kl_estimator=spec.kl_estimator,
                ),
            ),
            answer.outcome,
        )
        for answer in found.answered
    ]
    failing = [one for one in evident if one.judgement.verdict.fails]
    conforming = [one for one in evident if one not in failing]
    return signature(
        Evidence(tuple(strongest_first(failing)), tuple(strongest_first(conforming)), _where(failing, evident))
    )


def _named(asked: LossSpec) -> Iterator[LossSpec]:
    """The one asked for, then all that have a name, with every KL estimator, and all else as it is asked for."""
    yield asked
    estimators = list(KLEstimator) if asked.beta > 0 else [asked.kl_estimator]
    for loss_type, level, estimator in product(LossType, Level, estimators):
        yield replace(asked, loss_type=loss_type, importance_sampling_level=level, kl_estimator=estimator)


def _where(failing: Sequence[Evident], judged: Sequence[Evident]) -> Where:
    def regions(cases: Sequence[Evident]) -> Counter[str]:
        return Counter(region for one in cases for region in regions_of(one.case))

    return Where(regions(failing), regions(judged), len(failing), len(judged))
