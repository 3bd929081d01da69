"""How much the cases of a run prove: how many formulas they tell apart from the one that was asked for.

A formula is told apart by a case where its exact loss, or an element of its exact gradient, is further from what
is expected than rounding allows: no implementation of it could have passed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from flint import arb

from cases.case import Case
from cases.spec import LossType
from harness.events import CaseJudged, Event
from harness.generation import PHASES
from harness.judge import judge
from harness.outcome import Outcome
from harness.remembered import expected
from oracles.expectation import Expectation
from oracles.space.catalogue import everyday
from oracles.space.identities import canonical
from oracles.space.names import variant_of
from oracles.space.pieces import Pieces
from oracles.space.surrogates import USUAL_DUAL_CLIP
from oracles.space.variant import KL, Variant
from reports.records import Verdict

MOST_CASES: Final = 200
PATIENCE: Final = 24
"""Cases in a row that tell nothing more apart before the rest is taken to tell nothing either."""

MOST_NAMED: Final = 5

_TELLING_TOKENS: Final = range(8, 25)
_DUAL_CLIP: Final = math.log(USUAL_DUAL_CLIP)
_ANSWERED: Final = (Verdict.CONFORMS, Verdict.DIVERGES, Verdict.KNOWN)


@dataclass(frozen=True)
class Told:
    """Of so many other `formulas`, those that are not told apart (`left`), after so many `cases`."""

    formulas: int
    left: tuple[Variant, ...]
    cases: int


class _Shared:
    """The formulas' pieces on each case, which are the same whatever loss is asked for."""

    def __init__(self) -> None:
        self._pieces: dict[str, Pieces] = {}

    def of(self, case: Case) -> Pieces:
        key = replace(case, spec=replace(case.spec, loss_type=LossType.GRPO)).id
        if key not in self._pieces:
            self._pieces[key] = Pieces(case)
        return self._pieces[key]


def told_apart(cases: Sequence[Case], shared: _Shared | None = None) -> Told:
    """Put cases of one loss and level, with or without a KL term, to all formulas that their options can express.

    At most `MOST_CASES` are looked at, the most telling first; they are those whose options name one and the same
    formula.
    """
    named: defaultdict[Variant, list[Case]] = defaultdict(list)
    for case in cases:
        named[variant_of(case.spec)].append(case)
    asked, alike = max(named.items(), key=lambda one: len(one[1]))
    in_one_piece = all(case.split.is_whole for case in alike)
    asked = canonical(asked, in_one_piece)
    points = everyday() if asked.kl is not KL.NONE else [one for one in everyday() if one.kl is KL.NONE]
    rivals = [one for one in dict.fromkeys(canonical(point, in_one_piece) for point in points) if one != asked]
    shared = shared or _Shared()
    left, used, idle = rivals, 0, 0
    for case in _ordered(alike)[:MOST_CASES]:
        if not left or idle == PATIENCE:
            break
        before = len(left)
        left = _indistinct(case, shared.of(case), left)
        used += 1
        idle = idle + 1 if len(left) == before else 0
    return Told(len(rivals), tuple(left), used)


def _ordered(cases: Iterable[Case]) -> list[Case]:
    """The most telling first: of each kind in turn, and of a kind the most precise and the smallest."""
    simplest = sorted(cases, key=lambda case: (-case.batch.dtype.precision, case.batch.tokens))
    kinds = [[case for case in simplest if is_of(case)] for is_of in _KINDS]
    turns = (case for turn in zip_longest(*kinds, simplest) for case in turn if case is not None)
    return list({case.id: case for case in turns}.values())


def _is_rich(case: Case) -> bool:
    batch = case.batch
    ragged = len(set(batch.lengths.tolist())) > 1
    return ragged and batch.old_logps is not None and batch.tokens in _TELLING_TOKENS


def _is_far(case: Case) -> bool:
    """Whether a dual clip would act."""
    batch = case.batch
    return bool((batch.mask & (batch.log_ratios > _DUAL_CLIP) & (batch.token_advantages < 0)).any())


def _is_clipped_apart(case: Case) -> bool:
    """Whether a clip acts above, where its bounds are not alike."""
    batch = case.batch
    low, high = case.spec.ratio_bounds
    apart = math.isfinite(high) and abs(low + high - 2.0) > 1e-6
    return apart and bool((batch.mask & (batch.log_ratios > math.log(high)) & (batch.token_advantages > 0)).any())


_KINDS: Final[tuple[Callable[[Case], bool], ...]] = (
    _is_rich,
    lambda case: 0 in case.batch.lengths and case.batch.tokens > 0,
    lambda case: case.batch.advantages.ndim == 2,
    lambda case: not case.split.is_whole,
    _is_far,
    _is_clipped_apart,
)
"""What formulas part at: ragged completions, an empty one, signs that change within one, a split, the clip."""


def _indistinct(case: Case, pieces: Pieces, points: Sequence[Variant]) -> list[Variant]:
    """The points whose exact answer to a case rounding cannot tell from what is expected."""
    expectation = expected(case)
    if expectation.loss_overflows or expectation.others:
        return list(points)
    high, bound = float(expectation.loss.high[0]), float(expectation.loss.bound[0])
    wanted = arb(high) + arb(float(expectation.loss.low[0]))
    # The loss alone tells most points apart, to float64 even, before a gradient is formed.
    near = [point for point in points if pieces.may_be_within(point, bound, high)]
    near = [point for point in near if not abs(float(pieces.loss(point).value - wanted)) > bound]
    return [point for point in near if _alike(case, expectation, pieces, point)]


def _alike(case: Case, expectation: Expectation, pieces: Pieces, point: Variant) -> bool:
    exact = pieces.expectation(point)
    answer = Outcome("ok", float(exact.loss.high[0]), exact.gradients[0].high)
    return judge(case, expectation, answer).verdict is not Verdict.DIVERGES


@dataclass(frozen=True)
class Strength:
    """What the cases of one target tell apart where it is asked for one loss at one level; `left` in words."""

    loss_type: str
    level: str
    kl: bool
    formulas: int
    told: int
    cases: int
    left: tuple[str, ...]


class Sample:
    """Takes every judged case of a run and keeps the most telling ones of each target, loss and level."""

    def __init__(self) -> None:
        self._kept: defaultdict[tuple[str, str, str, bool], list[Case]] = defaultdict(list)
        self._facts: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, event: Event) -> None:
        """Keep a scheduled case that was answered, if there is room for it or it tells more than those kept."""
        if not isinstance(event, CaseJudged):
            return
        cell, record = event.record.cell, event.record
        if record.phase not in PHASES or record.verdict not in _ANSWERED:
            return
        kept = self._kept[cell.target, cell.loss_type, cell.level, cell.beta > 0]
        kept.append(event.case)
        if len(kept) > 4 * MOST_CASES:
            kept[:] = _ordered(kept)[:MOST_CASES]

    def measured(self) -> Iterator[None]:
        """Find the strength of one target, loss and level after the other, once all cases are added."""
        shared = _Shared()
        for (target, loss_type, level, kl), cases in self._kept.items():
            found = told_apart(cases, shared)
            told = found.formulas - len(found.left)
            words = tuple(point.words for point in found.left[:MOST_NAMED])
            strength = Strength(loss_type, level, kl, found.formulas, told, found.cases, words)
            self._facts[target].append(asdict(strength))
            yield

    def as_facts(self) -> dict[str, Any]:
        """The strength of the run, by target, as far as it was measured."""
        return dict(self._facts)
