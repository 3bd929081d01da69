"""The off-policy mask makes the value jump: which answers are right where rounding decides."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from exact_answers import case_of

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import BFLOAT16, DTYPES, FLOAT16, FLOAT32, DType
from cases.spec import Level, LossType
from harness.judge import judge
from harness.outcome import Outcome
from oracles.completions import Formula
from oracles.expectation import Expectation, expect
from oracles.terms import keeps
from reports.records import Verdict

every_loss = pytest.mark.parametrize("loss_type", LossType)
every_level = pytest.mark.parametrize("level", Level)


def drifted(dtype: DType, rows: int, seed: int = 0, advantage: float = -1.0) -> Batch:
    """Completions of three tokens, all of them with the drift of the first."""
    random = np.random.default_rng(seed)
    shape = (rows, 3)
    logps = dtype.round(np.broadcast_to(random.uniform(-2.0, -1.0, 3), shape))
    sampling = dtype.round(np.broadcast_to(logps[0] + random.uniform(0.25, 0.75, 3), shape))
    old = dtype.round(logps - random.uniform(-0.125, 0.125, shape))
    return Batch(dtype, logps, old, None, np.full(rows, advantage), np.ones(shape, dtype=bool), sampling)


def drift(batch: Batch) -> float:
    """The mean drift of the first completion, as nearly as float64 has it."""
    assert batch.sampling_logps is not None
    return math.fsum(batch.sampling_logps[0] - batch.logps[0]) / 3


def at_threshold(batch: Batch, loss_type: LossType, level: Level, shift: float = 0.0) -> Case:
    threshold = drift(batch) + shift
    return case_of(batch, loss_type, level, beta=0.0, off_policy_mask_threshold=threshold)


def told(way: Expectation, gradient_of: Expectation | None = None) -> Outcome:
    """An answer with the exact loss of one expectation and the gradient of the same or another."""
    return Outcome("ok", float(way.loss.high[0]), (gradient_of or way).gradients[0].high)


def dropped(way: Expectation, row: int) -> bool:
    return bool((way.gradients[0].high[row] == 0.0).all())


@every_level
@every_loss
def test_both_outcomes_are_expected_at_the_threshold(loss_type: LossType, level: Level) -> None:
    """A completion at the threshold may keep its policy term or lose it, loss and gradient together."""
    batch = drifted(FLOAT32, 1)
    case = at_threshold(batch, loss_type, level)
    found = expect(case)
    assert sorted(dropped(way, 0) for way in found.others) == [False, True]
    keeping, dropping = sorted(found.others, key=lambda way: dropped(way, 0))
    assert dropping.loss.high[0] == 0.0
    assert keeping.loss.high[0] != 0.0
    for way in (found, keeping, dropping):
        assert judge(case, found, told(way)).verdict is Verdict.CONFORMS
    for mixed in (told(keeping, dropping), told(dropping, keeping)):
        assert judge(case, found, mixed).verdict is Verdict.DIVERGES
    half = Outcome("ok", float(keeping.loss.high[0]) / 2, keeping.gradients[0].high / 2)
    assert judge(case, found, half).verdict is Verdict.DIVERGES


@every_level
@every_loss
def test_completions_decide_for_themselves(loss_type: LossType, level: Level) -> None:
    """Of two completions at the threshold either may be dropped; every combination is one of the ways."""
    case = at_threshold(drifted(FLOAT32, 2), loss_type, level)
    found = expect(case)
    ways = {(dropped(way, 0), dropped(way, 1)): way for way in found.others}
    assert len(ways) == len(found.others) == 4
    for way in found.others:
        assert judge(case, found, told(way)).verdict is Verdict.CONFORMS
    one, other = ways[True, False], ways[False, True]
    assert judge(case, found, told(ways[True, True], one)).verdict is Verdict.DIVERGES
    gradient = np.array([one.gradients[0].high[0] / 2, other.gradients[0].high[1]])
    assert judge(case, found, Outcome("ok", float(one.loss.high[0]), gradient)).verdict is Verdict.DIVERGES


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_far_from_the_threshold_there_is_one_outcome(dtype: DType) -> None:
    """A hundred roundings away the completion is dropped below its drift and kept above, and nothing else is."""
    shift = 100 * dtype.unit_roundoff * 2.0
    batch = drifted(dtype, 1)
    below, above = (expect(at_threshold(batch, LossType.GRPO, Level.TOKEN, by)) for by in (-shift, shift))
    assert below.others == above.others == ()
    assert dropped(below, 0)
    assert not dropped(above, 0)
    case = at_threshold(batch, LossType.GRPO, Level.TOKEN, -shift)
    assert judge(case, below, told(above)).verdict is Verdict.DIVERGES


def test_good_completions_are_not_asked() -> None:
    """Without a negative advantage nothing is undecided at the threshold."""
    case = at_threshold(drifted(FLOAT32, 2, advantage=1.0), LossType.GRPO, Level.TOKEN)
    found = expect(case)
    assert found.others == ()
    assert not dropped(found, 0)


@every_level
def test_tokens_of_one_completion_go_together(level: Level) -> None:
    """With advantages per token, the bad tokens at the threshold are dropped together and good ones kept."""
    batch = replace(drifted(FLOAT32, 1), advantages=np.array([[-1.0, 1.0, -0.5]]))
    found = expect(at_threshold(batch, LossType.CISPO, level))
    zeros = sorted((way.gradients[0].high[0] == 0.0).tolist() for way in found.others)
    assert zeros == [[False, False, False], [True, False, True]]


def test_exact_equality_is_decided() -> None:
    """Where nothing is rounded the drift is compared as it is: equality keeps."""
    batch = replace(drifted(FLOAT32, 1), sampling_logps=None, old_logps=None)
    for threshold, lost in ((0.0, False), (-(2.0**-20), True), (2.0**-20, False)):
        spec_case = case_of(batch, LossType.GRPO, Level.TOKEN, beta=0.0, off_policy_mask_threshold=threshold)
        found = expect(spec_case)
        assert found.others == ()
        assert dropped(found, 0) == lost
    # Powers of two whose mean is formed without rounding, though an implementation might round elsewhere.
    quarter = replace(batch, sampling_logps=batch.logps, mask=np.array([[True, False, False]]))
    quarter = replace(quarter, logps=np.full((1, 3), -0.25), sampling_logps=np.zeros((1, 3)))
    found = expect(case_of(quarter, LossType.GRPO, Level.TOKEN, beta=0.0, off_policy_mask_threshold=0.25))
    assert found.others == ()
    assert not dropped(found, 0)


def test_many_completions_at_the_threshold() -> None:
    """Sixteen ways are tried, and no more: beyond four completions exact arithmetic decides."""
    found = expect(at_threshold(drifted(FLOAT32, 6), LossType.DR_GRPO, Level.TOKEN))
    assert len(found.others) == 16
    patterns = {tuple(dropped(way, row) for row in range(6)) for way in found.others}
    assert len(patterns) == 16
    assert len({pattern[4:] for pattern in patterns}) == 1


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16, FLOAT16], ids=lambda dtype: dtype.name)
def test_no_rounded_comparison_is_surprising(dtype: DType) -> None:
    """Torch's decision near a threshold is the exact one, unless the oracle says that it may go either way."""
    kind = getattr(torch, dtype.name)
    undecided = differing = 0
    for seed in range(300):
        batch = drifted(dtype, 1, seed)
        shift = (seed % 21 - 10) * dtype.unit_roundoff
        formula = Formula.of(at_threshold(batch, LossType.GRPO, Level.TOKEN, shift))
        (kept, *_) = keeps(formula.micro_batches[0].completions[0], formula)
        logps, sampling = (torch.tensor(values, dtype=kind) for values in (batch.logps, batch.sampling_logps))
        threshold = drift(batch) + shift
        evidence = sampling - logps
        decisions = [
            bool((mean <= threshold).all())
            for mean in (
                evidence.sum(-1) / 3,
                evidence.mean(-1),
                (evidence / 3).sum(-1),
                evidence.flip(-1).mean(-1),
            )
        ]
        surprising = [decision for decision in decisions if decision is not kept]
        differing += bool(surprising)
        undecided += formula.jumps.undecided
        assert not surprising or formula.jumps.undecided == 1
    assert differing > 0
    assert undecided < 250
