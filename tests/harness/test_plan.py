"""The plan: profiles, lists, and defaults."""

from __future__ import annotations

import pytest

from cases.spec import Level, LossType
from harness.errors import UsageError
from harness.plan import PROFILES, Plan


def test_the_default_is_the_gate() -> None:
    """ci: a fixed seed, 64 examples, both levels, all losses, beta 0 and 0.04, three dtypes."""
    plan = Plan.of(["trl"])
    assert (plan.seed, plan.examples) == (0, 64)
    assert (plan.loss_types, plan.levels, plan.betas) == (tuple(LossType), tuple(Level), (0.0, 0.04))
    assert [dtype.name for dtype in plan.dtypes] == ["float64", "float32", "bfloat16"]


def test_nightly_takes_a_fresh_seed_and_more() -> None:
    """nightly: another seed every time, longer, beta 1 and float16 too."""
    plans = [Plan.of(["trl"], profile="nightly") for _ in range(3)]
    assert len({plan.seed for plan in plans}) > 1
    assert plans[0].examples > PROFILES["ci"].examples
    assert 1.0 in plans[0].betas
    assert "float16" in [dtype.name for dtype in plans[0].dtypes]


def test_lists_keep_their_order_and_lose_repetitions() -> None:
    """What is listed twice is judged once."""
    plan = Plan.of(["trl", "trl"], loss_types="dapo, grpo,dapo", betas="0.1,0", levels="sequence")
    assert plan.targets == ("trl",)
    assert plan.loss_types == (LossType.DAPO, LossType.GRPO)
    assert plan.betas == (0.1, 0.0)
    assert plan.levels == (Level.SEQUENCE,)


def test_an_explicit_seed_wins_over_the_profile() -> None:
    """A nightly finding can be repeated with its seed."""
    assert Plan.of(["trl"], profile="nightly", seed=5).seed == 5


def test_no_target_is_refused() -> None:
    """The error says where to look."""
    with pytest.raises(UsageError) as caught:
        Plan.of([])
    assert "lossgate targets" in caught.value.hint
