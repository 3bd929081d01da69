"""What is wrong in many cells is looked for once, not in each as if it were the only one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from cases.case import Case
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.explaining import expectations_checked
from harness.generation import schedule
from harness.judge import Judgement, judge
from harness.outcome import Outcome
from harness.signature import evidence as evidence_module
from harness.signature.evidence import Answered, Evidence, Suspect, Where
from harness.signature.signature import MOST_IN_VAIN, Search, strongest_first
from oracles.batched.dispatch import expect
from oracles.expectation import Expectation
from reports.records import Verdict
from tests.faults.inside import BY_NAME, contestant

ENTRIES = schedule(8, 0)[-8:]
NOWHERE = Where({}, {}, 0, 0)

Answer = Callable[[Case], Outcome]


def evidence(loss_type: str, answer: Answer) -> Evidence:
    """Some cases of a cell, with a KL term, and what a target answers to them."""
    answered = []
    for entry in ENTRIES:
        batch = realise(entry.description, FLOAT32, Level.TOKEN)
        case = case_for(entry.description, batch, LossType(loss_type), Level.TOKEN, 0.04)
        answered.append(Answered(case, answer(case)))
    failing = [one for one in answered if not one.is_right]
    right = [one for one in answered if one.is_right]
    return Evidence(tuple(strongest_first(failing)), tuple(right), NOWHERE)


def without_kl(case: Case) -> Outcome:
    """What a target answers that leaves the KL term out."""
    return exactly(replace(case, spec=replace(case.spec, beta=0.0)))


def at_random(case: Case) -> Outcome:
    """What no formula gives."""
    right = exactly(case)
    assert right.loss is not None
    assert right.gradient is not None
    random = np.random.default_rng(case.batch.tokens)
    noise = random.uniform(0.5, 2.0, right.gradient.shape)
    return replace(right, loss=right.loss * random.uniform(2.0, 3.0) + 0.1, gradient=right.gradient * noise)


def exactly(case: Case) -> Outcome:
    """What the formula of a case gives."""
    exact = expect(case)
    return Outcome("ok", float(exact.loss.high[0]), exact.gradients[0].high)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases that something was tried on, one for every trial."""
    found: list[Case] = []
    genuine = judge

    def noted(case: Case, expectation: Expectation, outcome: Outcome) -> Judgement:
        found.append(case)
        return genuine(case, expectation, outcome)

    monkeypatch.setattr(evidence_module, "judge", noted)
    return found


def trials(judged: list[Case], asked: Search, cells: Sequence[Evidence]) -> Iterator[tuple[str, int]]:
    """What is said of each cell, and after how many trials."""
    for cell in cells:
        judged.clear()
        yield asked.signature(cell).text, len(judged)


def test_what_was_found_is_tried_first(judged: list[Case]) -> None:
    """A KL term that is left out in every loss."""
    cells = [evidence(loss_type, without_kl) for loss_type in ("grpo", "dapo", "cispo", "sapo")]
    (words, first), *others = trials(judged, Search(), cells)
    assert words == "KL term missing"
    assert [words for words, _ in others] == ["KL term missing"] * 3
    assert max(number for _, number in others) <= 3 * len(ENTRIES)
    assert first > max(number for _, number in others)


def test_what_is_searched_in_vain(judged: list[Case]) -> None:
    """After a few searches for a loss, only what is quickly found is tried on its other cells."""
    assert MOST_IN_VAIN == 2
    found = list(trials(judged, Search(), [evidence("grpo", at_random)] * 4))
    assert {words for words, _ in found} == {"loss and gradient wrong"}
    searched, others = [number for _, number in found[:2]], [number for _, number in found[2:]]
    assert max(others) < min(searched) / 3


def test_another_loss_is_searched(judged: list[Case]) -> None:
    """That a search was in vain says nothing of other losses."""
    asked = Search()
    for _ in trials(judged, asked, [evidence("grpo", at_random)] * (MOST_IN_VAIN + 1)):
        pass
    (found,) = trials(judged, asked, [evidence("dapo", without_kl)])
    assert found[0] == "KL term missing"
    (missed,) = trials(judged, asked, [evidence("grpo", without_kl)])
    assert missed[0] == "KL term missing"


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("", "ratio rounded to float16"),
        ("ratio rounded to float16", "ratio rounded to float16"),
        ("ratio computed in float16", "ratio computed in float16"),
        ("KL term missing", "ratio rounded to float16"),
    ],
)
def test_what_is_expected_may_be_one_of_several(expected: str, found: str) -> None:
    """Two explanations account for a case that fails: what was said of it holds, if it is one of them."""
    one = contestant(BY_NAME["kl_sign"])
    batch = realise(schedule(8, 0)[180].description, FLOAT32, Level.TOKEN)
    case = case_for(schedule(8, 0)[180].description, batch, LossType.GRPO, Level.TOKEN, 0.04)
    suspect = Suspect(one.cell(case), Verdict.DIVERGES, (case,), (), NOWHERE, expected)
    (checked,) = expectations_checked([(1, suspect)], [one])
    assert checked.signature == found
