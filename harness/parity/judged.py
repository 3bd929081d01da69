"""The answers of an execution in a cell, judged by the oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cases.case import Case
from harness.asking import Contestant
from harness.judge import Judgement, agree, bits_equal, judge
from harness.outcome import Outcome
from harness.parity.asking import Answers
from harness.parity.questions import Purpose, Question
from oracles.expectation import Expectation
from reports.records import SEVERITY, Verdict, worst


@dataclass(frozen=True, eq=False)
class Judged:
    """A case under the conventions of the execution's target, what is expected, and what became of it.

    `same_bits` has one entry for every repetition that was answered; `nondeterministic` says that one of them
    differs by more than rounding allows.
    """

    question: Question
    case: Case
    expectation: Expectation
    outcome: Outcome
    judgement: Judgement
    same_bits: tuple[bool, ...] = ()
    nondeterministic: bool = False

    @property
    def ratio(self) -> float:
        """The larger error / bound; NaN where nothing was compared."""
        ratios = (self.judgement.loss.ratio, self.judgement.gradient.ratio)
        return max((ratio for ratio in ratios if not math.isnan(ratio)), default=math.nan)


def judged(one: Contestant, answers: Answers, case: Case, expectation: Expectation) -> Judged:
    """Judge an answer and its repetitions."""
    judgement = judge(case, expectation, answers.first)
    repeated = [outcome for outcome in (answers.again, answers.fresh) if outcome is not None]
    apart = [outcome for outcome in repeated if not agree(expectation, answers.first, outcome)]
    if apart:
        words = "two answers to the same case differ by more than rounding allows"
        if apart[0].status != answers.first.status:
            words = f"the same case ended as {answers.first.status}, then as {apart[0].status}"
        judgement = replace(judgement, verdict=Verdict.NONDETERMINISTIC, message=words)
    judgement = one.as_expected(judgement, one.cell(case), answers.question.regions)
    same = (bits_equal(answers.first, outcome) for outcome in repeated)
    return Judged(
        question=answers.question,
        case=case,
        expectation=expectation,
        outcome=answers.first,
        judgement=judgement,
        same_bits=tuple(bits for bits in same if bits is not None),
        nondeterministic=bool(apart),
    )


def verdict_of(cases: Sequence[Judged]) -> Verdict:
    """The verdict of a cell: `unsupported` where nothing fails and none of its ordinary cases was answered."""
    found = worst(one.judgement.verdict for one in cases)
    ordinary = (one for one in cases if one.question.purpose is Purpose.ORDINARY)
    is_answered = any(one.judgement.verdict is not Verdict.UNSUPPORTED for one in ordinary)
    return found if found.fails or is_answered else Verdict.UNSUPPORTED


def worst_of(cases: Sequence[Judged]) -> Judged:
    """The case that shows a cell's verdict: of the worst verdict, with the largest error / bound."""

    def badness(one: Judged) -> tuple[int, float]:
        verdict = one.judgement.verdict
        rank = SEVERITY.index(verdict) if verdict in SEVERITY else len(SEVERITY)
        return -rank, 0.0 if math.isnan(one.ratio) else one.ratio

    return max(cases, key=badness)
