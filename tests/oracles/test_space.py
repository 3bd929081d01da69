"""The space of formulas: its named points are the literal oracles, and points that look alike are alike."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from cases.case import Case
from cases.conventions import Conventions
from cases.descriptions import Description, Importance, OffPolicyMask
from cases.dtypes import DTYPES, FLOAT32, FLOAT64
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import KLEstimator, Level, LossType
from harness.generation import draw
from harness.identification.probes import probes
from harness.judge import judge
from harness.outcome import Outcome, TargetSupport
from oracles.expectation import Expectation, expect
from oracles.space.catalogue import everyday, weighted, whole
from oracles.space.identities import IDENTITIES, canonical
from oracles.space.names import loss_of, name_of, variant_of
from oracles.space.pieces import Pieces
from oracles.space.variant import KL, Aggregation, Placement, Ratio, Rows, Surrogate, Variant

ALL: Final = TargetSupport(
    (), (), ("float64",), ("old_logps", "beta", "token_advantages", "importance_ratio", "split")
)
CONVENTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"empty_rows": "not_counted"},
    {"dual_clip": 3.0, "cispo_clip": "two_sided", "sequence_gradient": "token"},
    {"kl_aggregation": "token_mean", "kl_bound": 10.0, "log_ratio_bounds": (-20.0, 20.0)},
    {"denominator_epsilon": 1e-8, "kl_log_ratio_bound": 20.0},
)


def _descriptions() -> list[Description]:
    small = [one for one in draw(160, 5) if one.row_count * one.columns <= 24]
    return [replace(one, off_policy_mask=OffPolicyMask.NONE) for one in small]


def _same(ours: Expectation, theirs: Expectation) -> bool:
    """Whether two expectations are one answer; an outcome of one, where rounding decides, is one of the other."""
    gradients = [
        any(np.allclose(one.high, other.high, rtol=1e-12, atol=1e-30) for other in theirs.gradients)
        for one in ours.gradients
    ]
    return np.allclose(ours.loss.high, theirs.loss.high, rtol=1e-12, atol=1e-300) and all(gradients)


@pytest.mark.parametrize("loss_type", LossType)
def test_a_named_point_is_the_literal_oracle(loss_type: LossType) -> None:
    """Value, gradient and bound of the point are the oracle's, with all options and conventions."""
    count = 0
    for number, description in enumerate(_descriptions()[:60]):
        level, dtype = list(Level)[number % 2], list(DTYPES.values())[number % 4]
        estimator = list(KLEstimator)[number % 4]
        if description.delta.value != "none":
            description = replace(description, delta=type(description.delta).NONE)
        case = case_for(description, realise(description, dtype, level), loss_type, level, 0.04 * (number % 3))
        conventions = Conventions(**CONVENTIONS[number % len(CONVENTIONS)])
        estimator = estimator if case.spec.beta else KLEstimator.K3
        case = replace(case, spec=replace(case.spec, conventions=conventions, kl_estimator=estimator))
        literal, point = expect(case), Pieces(case).expectation(variant_of(case.spec))
        assert _same(literal, point), (case.id, variant_of(case.spec).words)
        # The bounds count the same roundings, in another order here and there.
        ours, theirs = float(point.loss.bound[0]), float(literal.loss.bound[0])
        assert ours <= 5.0 * theirs <= 25.0 * ours or not math.isfinite(ours + theirs)
        count += 1
    assert count == 60


def _cases(split: bool) -> list[Case]:
    found = []
    for loss_type, level in ((LossType.GRPO, Level.TOKEN), (LossType.GRPO, Level.SEQUENCE)):
        found += [case for case, *_ in probes(loss_type, level, FLOAT64, ALL)[: 3 if split else 2]]
    return found


@pytest.mark.parametrize("identity", IDENTITIES, ids=lambda one: one.about[:30])
def test_every_identity_holds(identity: Any) -> None:
    """Both sides of every rewriting are one formula, on the probes; the one that needs no split fails with one."""
    rewritten = [(one, identity.rewrite(one)) for one in everyday()[::7] + whole()[::97]]
    pairs = [(one, other) for one, other in _unlike(identity) + rewritten if one != other][:60]
    assert pairs
    for case in _cases(split=not identity.in_one_piece):
        pieces = Pieces(case)
        for one, other in pairs:
            assert _same(pieces.expectation(one), pieces.expectation(other)), (one.words, other.words)
    if identity.in_one_piece:
        pieces = Pieces(_cases(split=True)[2])
        apart = [(one, other) for one, other in pairs if canonical(one) != canonical(other)][:5]
        assert apart
        assert not any(_same(pieces.expectation(one), pieces.expectation(other)) for one, other in apart)


def _unlike(identity: Any) -> list[tuple[Variant, Variant]]:
    """Points that the catalogue does not hold, because it holds the ones that they are rewritten to."""
    points = [
        Variant(aggregation, ratio, surrogate, kl, placement, rows)
        for aggregation in (Aggregation.SEQUENCE_MEAN, Aggregation.STEP_TOKEN_MEAN, Aggregation.TOKEN_MEAN)
        for ratio in (Ratio.SEQUENCE, Ratio.SEQUENCE_TOKEN, Ratio.ON_POLICY)
        for surrogate in (
            Surrogate.UNCLIPPED,
            Surrogate.DETACHED,
            Surrogate.CLIP,
            Surrogate.CAP,
            Surrogate.GAMMA,
            Surrogate.GEOMETRIC,
            Surrogate.REINFORCE,
        )
        for kl in (KL.NONE, KL.K3)
        for placement in Placement
        for rows in Rows
    ]
    return [(one, identity.rewrite(one)) for one in points if identity.rewrite(one) != one][::3]


def test_the_probes_tell_every_everyday_formula_apart() -> None:
    """No two points of the everyday catalogue, with importance ratios on any term, answer all probes alike."""
    seen: defaultdict[bytes, list[Variant]] = defaultdict(list)
    pieces = [Pieces(case) for case, *_ in probes(LossType.GRPO, Level.TOKEN, FLOAT64, ALL)]
    for point in everyday():
        # The gradient of the plain points, and the loss alone of those that differ by a weight.
        answers = [one.expectation(point) for one in pieces]
        parts = [part for one in answers for part in (one.loss.high, one.gradients[0].high.ravel())]
        seen[np.array([f"{value:.9e}" for value in np.concatenate(parts)]).tobytes()].append(point)
        losses = {f"{float(pieces[2].loss(other).value):.9e}" for other in weighted(point)}
        assert len(losses) == len(weighted(point)), point.words
    merged = [[point.words for point in points] for points in seen.values() if len(points) > 1]
    assert merged == []
    assert len(everyday()) >= 224


@pytest.mark.parametrize("start", range(4))
def test_an_answer_in_float32_is_the_point_alone(start: int) -> None:
    """A sample of the everyday formulas, answered exactly and rounded to float32: the probes name it, alone."""
    asked = probes(LossType.GRPO, Level.TOKEN, FLOAT32, replace(ALL, dtypes=("float32",)))
    pieces = [(case, Pieces(case)) for case, *_ in asked]
    for point in everyday()[start * 50 + 17 :: 211]:
        left = list(everyday())
        for case, one in pieces:
            exact = one.expectation(point)
            loss = float(FLOAT32.round(exact.loss.high)[0])
            answer = Outcome("ok", loss, FLOAT32.round(exact.gradients[0].high))
            left = [other for other in left if one.may_lose(other, loss)]
            left = [other for other in left if judge(case, one.expectation(other), answer).verdict == "conforms"]
        assert left == [point], [other.words for other in left]


def test_the_quick_look_rules_out_no_answer_within_the_bound() -> None:
    """`may_lose` holds at both ends of the bound of a point's loss, and not far beyond them."""
    case, *_ = probes(LossType.GRPO, Level.TOKEN, FLOAT32, replace(ALL, dtypes=("float32",)))[2]
    pieces = Pieces(case)
    for point in everyday()[::37]:
        exact = pieces.expectation(point).loss
        value, bound = float(exact.high[0]), float(exact.bound[0])
        assert pieces.may_lose(point, value - bound)
        assert pieces.may_lose(point, value + bound)
        assert not pieces.may_lose(point, value + 4.0 * bound)


def test_every_name_is_found_again() -> None:
    """The point of a loss has the loss's name; what stands for another has that one's."""
    from cases.spec import LossSpec

    for loss_type in LossType:
        assert name_of(variant_of(LossSpec(loss_type))) == loss_type
        assert loss_of(variant_of(LossSpec(loss_type, beta=0.1))) == (loss_type, Level.TOKEN)
    assert name_of(variant_of(LossSpec(LossType.GRPO, Level.SEQUENCE))) == "grpo at sequence level (GSPO)"
    assert name_of(variant_of(LossSpec(LossType.VESPO, Level.SEQUENCE))) == "vespo"
    assert name_of(canonical(Variant(Aggregation.STEP_TOKEN_MEAN), in_one_piece=True)) == "bnpo"
    assert name_of(Variant(Aggregation.PADDED_MEAN)) == ""


def test_importance_ratios_weigh_what_a_point_says() -> None:
    """The policy term alone, both terms, or neither."""
    from oracles.space.variant import Weighting

    description = next(one for one in _descriptions() if len(one.rows) > 1)
    plain = replace(description, importance=Importance.PER_TOKEN, on_policy=False)
    case = case_for(plain, realise(plain, FLOAT64, Level.TOKEN), LossType.GRPO, Level.TOKEN, 0.5)
    pieces = Pieces(case)
    losses = {
        weighting: float(pieces.loss(Variant(Aggregation.SEQUENCE_MEAN, kl=KL.K3, weighting=weighting)).value)
        for weighting in Weighting
    }
    assert len(set(losses.values())) == 3
    vespo = replace(case, spec=replace(case.spec, loss_type=LossType.VESPO))
    point = replace(variant_of(vespo.spec), weighting=Weighting.NONE)
    bare = replace(vespo, batch=replace(vespo.batch, importance_ratio=None))
    assert float(Pieces(vespo).loss(point).value) == pytest.approx(expect(bare).loss.high[0], rel=1e-12)
    unweighted = replace(case, batch=replace(case.batch, importance_ratio=None))
    assert losses[Weighting.NONE] == pytest.approx(expect(unweighted).loss.high[0], rel=1e-12)
