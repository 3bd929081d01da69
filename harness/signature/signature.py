"""The signature of a failing cell: what is wrong, in one line that stays the same from run to run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cases.spec import LossType
from harness.signature.conditions import condition
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Explanation, Hypothesis
from harness.signature.factors import MOSTLY, factor_words, named_row_factor, tells
from harness.signature.fitting import fitted
from harness.signature.off_policy import off_policy
from harness.signature.otherwise import otherwise
from harness.signature.points import points
from harness.signature.precision import precision
from harness.signature.renormalised import renormalised
from harness.signature.residual import residual
from harness.signature.slips import slips
from harness.signature.terms import named_terms
from harness.signature.tokens import tokens
from oracles.batched.dispatch import expect
from reports.records import Verdict

MOST_IN_VAIN: Final = 2
"""Searches for what is wrong with a loss that account for no cell in whole, before no other is begun."""

Tried = Explanation | Hypothesis
Explain = Callable[[Evidence], Iterator[Tried]]


@dataclass(frozen=True)
class Signature:
    """What is wrong, and where; `text` is the key under which findings are grouped.

    `explains`: whether it accounts for every number that was seen, within rounding.
    """

    what: str
    where: str = ""
    explains: bool = False

    @property
    def text(self) -> str:
        """Both in one line."""
        return f"{self.what}; {self.where}" if self.where else self.what


class Search:
    """The search for what is wrong in the cells of a target: one fault shows in many of them.

    What was found of other cells is tried first. Where search after search for a loss was in vain, only that and
    what is quickly found is tried on its other cells.
    """

    def __init__(self) -> None:
        self._found: defaultdict[tuple[Explain, LossType | None], set[str]] = defaultdict(set)
        self._in_vain: Counter[LossType] = Counter()

    def signature(self, evidence: Evidence) -> Signature:
        """The signature of a cell; what was found is remembered."""
        if all(one.judgement.verdict is Verdict.CONFORMS for one in evidence.failing):
            return Signature("its failing cases conform when they are asked again")
        what = _unanswered(evidence)
        if what:
            return Signature(what, condition(evidence.where), explains=False)
        loss_type = evidence.failing[0].case.spec.loss_type
        tried = []
        for explain, one in self._tries(evidence, loss_type):
            if one.is_whole:
                self._found[explain, _scope(explain, loss_type)].add(one.words)
                return Signature(one.words, explains=True)
            tried.append((explain, one))
        self._in_vain[loss_type] += 1
        partly = [(found.share, explain, found.words) for explain, one in tried if (found := one.counted())]
        if partly:
            most, explain, words = max(partly, key=lambda one: one[0])
            if most >= MOSTLY:
                self._found[explain, _scope(explain, loss_type)].add(words)
                return Signature(words)
        place = next(tokens(evidence), None)
        if place is not None and place.share >= MOSTLY:
            return Signature(place.words)
        return Signature(_seen(evidence), condition(evidence.where))

    def _tries(self, evidence: Evidence, loss_type: LossType) -> Iterator[tuple[Explain, Tried]]:
        """What was found of other cells, and what is plainer and quickly found; then all, or all that is quick."""
        found = {explain: self._found.get((explain, _scope(explain, loss_type))) for explain in _ALL}
        last = max((number for number, explain in enumerate(_ALL) if found[explain]), default=-1)
        done = set()
        for explain in _ALL[: last + 1]:
            words = found[explain]
            if words is not None:
                yield from ((explain, one) for one in explain(evidence) if one.says(words))
            elif explain in _QUICK:
                yield from ((explain, one) for one in explain(evidence))
                done.add(explain)
        for explain in _QUICK if self._in_vain[loss_type] >= MOST_IN_VAIN else _ALL:
            if explain not in done:
                yield from ((explain, one) for one in explain(evidence))


def _scope(explain: Explain, loss_type: LossType) -> LossType | None:
    """For which loss an explanation is remembered; None for all of them."""
    return loss_type if explain in _LOOSE else None


def accounts(evidence: Evidence, words: str) -> bool:
    """Whether an explanation, by its words, accounts for all cases, whatever else does; never a loose one."""
    explains = (explain for explain in _ALL if explain not in _LOOSE)
    return any(one.says({words}) and one.is_whole for explain in explains for one in explain(evidence))


def signature(evidence: Evidence) -> Signature:
    """The first of these that explains every failing case, and leaves those that conform as they are.

    How it ended, where it gave no number; another formula of the space; something done otherwise; a step written
    wrong; a factor, or one of each term; a family with one free number; what is added to the loss; a lower
    precision. Where none explains all: what explains most, else the tokens at which the gradient is wrong, else
    what is seen.
    """
    return Search().signature(evidence)


def _unanswered(evidence: Evidence) -> str:
    """How the cases ended, where the worst of them have no numbers."""
    verdicts = [one.judgement.verdict for one in evidence.failing]
    ended = [one for one in evidence.failing if not one.is_number]
    if not ended or len(ended) < len(verdicts):
        return ""
    return ended[0].outcome.message.splitlines()[0] if ended[0].outcome.message else str(verdicts[0])


def _not_finite(evidence: Evidence) -> Iterator[Explanation]:
    spoiled = [one for one in evidence.numbers if _spoils(one)]
    if len(spoiled) < len(evidence.numbers):
        return
    loss = all(not np.isfinite(one.outcome.loss) for one in spoiled if one.outcome.loss is not None)
    gradient = all(
        not np.isfinite(one.outcome.gradient).all() for one in spoiled if one.outcome.gradient is not None
    )
    which = "loss and gradient" if loss and gradient else "loss" if loss else "gradient" if gradient else "answer"
    where = condition(evidence.where)
    yield Explanation(f"{which} NaN or infinite where the formula is finite{where and f'; {where}'}", 1.0)


def _spoils(one: Answered) -> bool:
    finite = np.isfinite(one.outcome.loss or 0.0) and (
        one.outcome.gradient is None or np.isfinite(one.outcome.gradient).all()
    )
    return one.judgement.verdict is Verdict.DIVERGES and not finite


def _otherwise(evidence: Evidence) -> Iterator[Hypothesis]:
    done = {one: dict(otherwise(one.case)) for one in evidence}
    for words in dict.fromkeys(words for one in evidence.telling for words in done[one]):

        def explains(one: Answered, words: str = words) -> bool:
            case = done[one].get(words)
            # Where there is nothing to do otherwise, the answer must be right.
            return one.is_right if case is None else one.explained_by(expect(case), case)

        def does(one: Answered, words: str = words) -> bool:
            return words in done[one]

        def told(_: Answered, words: str = words) -> str:
            return words

        yield Hypothesis(evidence, explains, does, told)


def _factor(evidence: Evidence) -> Iterator[Explanation]:
    yield from _everywhere_or_where(evidence, factor_words)


def _row_factor(evidence: Evidence) -> Iterator[Explanation]:
    def name(cases: Sequence[Answered]) -> str:
        factor = named_row_factor(cases)
        return f"each completion's gradient x {factor}" if factor else ""

    yield from _everywhere_or_where(evidence, name)
    # A split moves rows between micro-batches; what is said of whole batches is said of most.
    whole = [one for one in evidence.numbers if one.case.split.is_whole and tells(one)]
    words = name(whole)
    if words and len(whole) < len(evidence.numbers):
        yield Explanation(words, min(len(whole) / len(evidence.numbers), 0.99))


def _terms(evidence: Evidence) -> Iterator[Explanation]:
    yield from _everywhere_or_where(evidence, named_terms)


def _everywhere_or_where(evidence: Evidence, name: Callable[[Sequence[Answered]], str]) -> Iterator[Explanation]:
    """Words that hold for conforming cases too, whose quantity is 1; else those of a region of input space."""
    failing = [one for one in evidence.numbers if tells(one)]
    everywhere = name([*failing, *(one for one in evidence.conforming if tells(one))])
    if everywhere:
        yield Explanation(everywhere, 1.0)
        return
    words = name(failing)
    if not words:
        return
    where = condition(evidence.where)
    if where:
        yield Explanation(f"{words}; {where}", 1.0)


def _masked(evidence: Evidence) -> Iterator[Explanation]:
    leaking = [
        one
        for one in evidence.numbers
        if one.outcome.gradient is not None and (one.outcome.gradient[~one.case.batch.mask] != 0.0).any()
    ]
    if leaking:
        # Some cases have no masked position to show it.
        able = [one for one in evidence.numbers if not one.case.batch.mask.all()]
        yield Explanation("gradient at masked positions", min(len(leaking) / len(able), 0.99))


def _seen(evidence: Evidence) -> str:
    """Which of the two numbers are wrong."""
    loss = [one.judgement.loss.ratio > 1.0 for one in evidence.numbers]
    gradient = [one.judgement.gradient.ratio > 1.0 for one in evidence.numbers]
    if not any(gradient):
        return "loss wrong, gradient right"
    if not any(loss):
        return "gradient wrong, loss right"
    return "loss and gradient wrong"


def strongest_first(cases: Sequence[Answered]) -> Iterator[Answered]:
    """Cases that tell most first: many tokens, off-policy, with a split; empty batches last."""
    yield from sorted(cases, key=lambda one: -_weight(one))


def _weight(one: Answered) -> float:
    batch = one.case.batch
    rich = 4 * (batch.old_logps is not None) + 2 * (0 not in batch.lengths) + (not one.case.split.is_whole)
    return min(batch.tokens, 24) + rich


_QUICK: Final[tuple[Explain, ...]] = (_not_finite, _factor, _row_factor, _terms, residual, _masked, precision)
_ALL: Final[tuple[Explain, ...]] = (
    _not_finite,
    points,
    _otherwise,
    slips,
    renormalised,
    off_policy,
    _factor,
    _row_factor,
    _terms,
    fitted,
    residual,
    _masked,
    precision,
)
"""The plainest first."""

_LOOSE: Final = (off_policy, precision)
"""What accounts for much: it holds where nothing plainer does, which is found out for each loss."""
