"""Strength: what the cases of a run prove is counted, and falls where the cases are poor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cases.batch import Batch
from cases.case import Case
from cases.corpus.entries import judged
from cases.dtypes import BFLOAT16, FLOAT32, FLOAT64
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.schedule import boundary_descriptions
from cases.spec import KLEstimator, Level, LossSpec, LossType
from harness.engine import execute
from harness.events import CaseJudged, Event, RunFinished
from harness.generation import draw
from harness.judge import judge
from harness.outcome import Outcome
from harness.plan import Plan
from harness.strength import PATIENCE, Sample, told_apart
from oracles.expectation import expect
from oracles.space.catalogue import everyday
from oracles.space.pieces import Pieces
from oracles.space.variant import KL, Aggregation, Ratio, Rows, Surrogate, Variant
from reports.facts import strength_summary
from reports.records import Verdict

BETA = 0.04
WITH_KL = len(everyday()) - 1
WITHOUT_KL = sum(point.kl is KL.NONE for point in everyday()) - 1
"""The other formulas that a case can be of, where it has a KL term and where it has none."""


def small_cases(loss_type: LossType, level: Level, beta: float) -> list[Case]:
    """The fixed phases of a run in one cell, without the few batches that are large, and some drawn ones."""
    descriptions = [*(one for _, one in judged()), *boundary_descriptions(), *draw(24, 0)]
    return [
        case_for(one, realise(one, FLOAT32, level), loss_type, level, beta)
        for one in descriptions
        if one.row_count * one.columns <= 32
    ]


def full_case(seed: int, beta: float = 0.0) -> Case:
    """Four completions that fill T, of both signs, with ratios inside and beyond both bounds."""
    random = np.random.default_rng(seed)
    logps = FLOAT32.round(-random.uniform(0.2, 2.0, (4, 3)))
    moves = random.uniform(-0.9, 0.9, (4, 3))
    return Case(
        Batch(
            dtype=FLOAT32,
            logps=logps,
            old_logps=FLOAT32.round(logps - moves),
            ref_logps=FLOAT32.round(logps + random.uniform(-1.0, 1.0, (4, 3))) if beta else None,
            advantages=np.array([1.0, -1.0, 0.5, -0.5]),
            mask=np.ones((4, 3), dtype=bool),
        ),
        LossSpec(LossType.GRPO, beta=beta, max_completion_length=5),
    )


@pytest.mark.parametrize("loss_type", [LossType.GRPO, LossType.DAPO, LossType.SAPO])
@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("beta", [0.0, BETA])
def test_the_cases_of_a_run_tell_all_everyday_formulas_apart(
    loss_type: LossType, level: Level, beta: float
) -> None:
    """In float32 and after few cases; without a KL term there are fewer formulas to tell apart."""
    found = told_apart(small_cases(loss_type, level, beta))
    assert found.left == ()
    assert found.formulas == (WITH_KL if beta else WITHOUT_KL)
    assert found.cases < 60


def test_full_completions_of_one_length_merge_the_means() -> None:
    """Then no case tells a mean over tokens from one over completions or over all positions, nor counts rows."""
    poor = told_apart([full_case(seed) for seed in range(8)])
    means = {Aggregation.SEQUENCE_MEAN, Aggregation.TOKEN_MEAN, Aggregation.PADDED_MEAN}
    assert {point.aggregation for point in poor.left if point.surrogate is Surrogate.CLIP} == means
    assert {point.rows for point in poor.left} == {Rows.COUNTED, Rows.NOT_COUNTED}
    masks = [np.arange(3) < np.array([1, 3, 2, 3])[:, None], np.arange(3) < np.array([0, 3, 2, 3])[:, None]]
    ragged = [replace(case, batch=replace(case.batch, mask=masks[n % 2])) for n, case in enumerate(
        full_case(seed) for seed in range(8))]  # fmt: skip
    rich = told_apart(ragged)
    assert set(rich.left) < set(poor.left)
    assert not any(point.aggregation in means and point.surrogate is Surrogate.CLIP for point in rich.left)


def test_a_step_in_one_piece_has_no_mean_of_its_own() -> None:
    """Where nothing is split, the means over the micro-batch and over the step are one formula."""
    whole = told_apart([full_case(seed) for seed in range(4)])
    split = told_apart(small_cases(LossType.GRPO, Level.TOKEN, 0.0))
    assert whole.formulas < split.formulas
    assert not any(point.aggregation is Aggregation.STEP_TOKEN_MEAN for point in whole.left)


def test_a_formula_that_is_left_answers_every_case() -> None:
    """What is not told apart is what an implementation could compute unnoticed, and nothing else is left."""
    cases = [full_case(seed, BETA) for seed in range(6)]
    found = told_apart(cases)
    apart = Variant(Aggregation.SEQUENCE_SUM, kl=KL.K3)
    for point, verdict in ((found.left[0], Verdict.CONFORMS), (apart, Verdict.DIVERGES)):
        verdicts = set()
        for case in cases:
            exact = Pieces(case).expectation(point)
            answer = Outcome("ok", float(exact.loss.high[0]), exact.gradients[0].high)
            verdicts.add(judge(case, expect(case), answer).verdict)
        assert verdicts == {verdict}, point
    assert apart not in found.left


def test_a_gradient_tells_apart_what_has_one_value() -> None:
    """The ratio of a completion with a gradient to each token alone differs in nothing but the gradient."""
    case = small_cases(LossType.GRPO, Level.SEQUENCE, 0.0)
    by_token = [one for one in case if one.batch.advantages.ndim == 2]
    by_row = [one for one in case if one.batch.advantages.ndim == 1]
    point = Variant(Aggregation.SEQUENCE_MEAN, Ratio.SEQUENCE_TOKEN)
    assert point not in told_apart(by_token).left
    assert point in told_apart(by_row).left


def test_one_and_the_same_formula_is_asked_for() -> None:
    """Cases whose options name another formula than most are left out, as if they were not there."""
    most = [full_case(seed, BETA) for seed in range(6)]
    other = [replace(case, spec=replace(case.spec, kl_estimator=KLEstimator.K2)) for case in most[:2]]
    assert told_apart(most + other) == told_apart(most)
    assert told_apart(most).left != ()


def test_it_stops_where_cases_tell_nothing_more() -> None:
    """Cases that are all alike are not put to the end; one that is there twice is put once."""
    cases = [full_case(seed) for seed in range(60)]
    found = told_apart(cases)
    assert found.left != ()
    assert PATIENCE < found.cases < PATIENCE + 12
    assert told_apart(cases[:3] * 4).cases == 3


def test_what_rounding_hides_is_not_told_apart() -> None:
    """A ratio just above 3, where a dual clip acts: beyond doubt in float64, within rounding of 3 in bfloat16."""
    one = np.ones((1, 1))
    batch = Batch(BFLOAT16, 0.0 * one, -1.1015625 * one, None, np.array([-1.0]), one.astype(bool))
    coarse = Case(batch, LossSpec(LossType.GRPO))
    fine = replace(coarse, batch=replace(batch, dtype=FLOAT64))
    dual = Variant(Aggregation.SEQUENCE_MEAN, surrogate=Surrogate.DUAL_CLIP)
    assert dual in told_apart([coarse]).left
    assert dual not in told_apart([fine]).left
    assert told_apart([coarse, fine]).left == told_apart([fine]).left


def test_a_run_says_how_strong_its_cases_are() -> None:
    """By target, loss, level and KL term, with what is left in words; shrunk cases do not count."""
    plan = Plan.of(["fault:none", "fault:no_clip"], loss_types="grpo", levels="token", dtypes="float32",
                   examples=1)  # fmt: skip
    events: list[Event] = []
    execute(plan, events.append)
    facts = next(event.facts for event in events if isinstance(event, RunFinished))
    for target in ("fault:none", "fault:no_clip"):
        found = facts["strength"][target]
        assert [(one["loss_type"], one["level"], one["kl"]) for one in found] == [
            ("grpo", "token", False),
            ("grpo", "token", True),
        ]
        assert [one["formulas"] for one in found] == [WITHOUT_KL, WITH_KL]
        assert all(one["told"] == one["formulas"] and one["left"] == () for one in found)
        words = f"strength: all of up to {WITH_KL:,} other formulas told apart in every cell"
        assert strength_summary(facts, target) == words
    scheduled = [event for event in events if isinstance(event, CaseJudged)]
    sample = Sample()
    for event in scheduled:
        if event.record.phase == "shrunk":
            sample.add(event)
    assert list(sample.measured()) == []
    assert sample.as_facts() == {}


def test_a_weak_run_names_its_weakest_cell() -> None:
    """With the share rounded down, so that nothing is called 100 % that is not."""
    cells = [
        {"loss_type": "grpo", "level": "token", "kl": True, "formulas": 1919, "told": 1918},
        {"loss_type": "luspo", "level": "sequence", "kl": False, "formulas": 209, "told": 200},
    ]
    assert strength_summary({"strength": {"one": cells}}, "one") == (
        "strength: at least 95.6 % of up to 1,919 other formulas told apart in every cell; "
        "weakest: luspo sequence without KL term, 200 of 209"
    )
    assert strength_summary({"strength": {"one": cells[:1]}}, "one").startswith("strength: at least 99.9 %")
    assert strength_summary({}, "one") == ""
