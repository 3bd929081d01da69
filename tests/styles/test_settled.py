"""Correct implementations conform under every convention, however they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import numpy as np
import pytest
import torch

from cases.case import Case
from cases.conventions import CispoClip, Conventions, EmptyRows, KLAggregation, KLBounded, SequenceGradient
from cases.descriptions import Advantage, Description, Layout, Ratio, Row
from cases.dtypes import BFLOAT16, DTYPES, FLOAT32, FLOAT64, DType
from cases.hyperparameters import case_for
from cases.pairwise import covering
from cases.realisation import realise
from cases.spec import KLEstimator, Level, LossType
from cases.split import Split
from harness.generation import schedule
from harness.judge import judge
from oracles.expectation import expect
from reports.records import Verdict
from tests.styles.settled import outcome_of
from tests.styles.ties import tie_cases
from tests.styles.wordings import WORDINGS

DRAWN: Final = 60
LARGEST: Final = 64

CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "empty_rows": tuple(EmptyRows),
    # As libraries have them; a bound of 0.1 acts in every other case.
    "log_ratio_bounds": ((None, None), (-20.0, 20.0), (None, 10.0), (-0.125, 0.1)),
    "kl_log_ratio_bound": (None, 20.0, 0.3),
    "kl_bound": (None, 10.0, 0.1),
    "kl_bounded": tuple(KLBounded),
    "kl_aggregation": tuple(KLAggregation),
    "dual_clip": (None, 3.0, 1.1),
    "sequence_gradient": tuple(SequenceGradient),
    "cispo_clip": tuple(CispoClip),
    "denominator_epsilon": (0.0, 1e-8, 1e-3),
    "level": tuple(Level),
    "beta": (0.04, 1.0, 0.0),
    "kl_estimator": tuple(KLEstimator),
}
COMBINATIONS: Final = covering(CHOICES)

OTHERWISE: Final[dict[str, Any]] = {
    "empty_rows": EmptyRows.NOT_COUNTED,
    "log_ratio_bounds": (-0.5, 0.05),
    "kl_log_ratio_bound": 0.2,
    "kl_bound": 0.05,
    "kl_bounded": KLBounded.EXPONENTIAL,
    "kl_aggregation": KLAggregation.TOKEN_MEAN,
    "dual_clip": 1.05,
    "sequence_gradient": SequenceGradient.TOKEN,
    "cispo_clip": CispoClip.TWO_SIDED,
    # What no half type can be told apart by is not tried.
    "denominator_epsilon": 0.5,
}
"""What an implementation might have instead."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """PyTorch on one thread: these tensors are too small to share out."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def descriptions(seed: int) -> Iterator[Description]:
    """The boundary phase and what is drawn, in one piece."""
    for entry in schedule(DRAWN, seed):
        whole = replace(entry.description, split=Split())
        if whole.row_count * whole.columns <= LARGEST:
            yield whole


def cases(seed: int, dtype: DType) -> Iterator[Case]:
    """Every description in three losses, under combinations of conventions in turn."""
    for number, description in enumerate(descriptions(seed)):
        for offset in range(3):
            turn = 3 * number + offset
            loss_type = tuple(LossType)[turn % len(LossType)]
            chosen = dict(COMBINATIONS[(turn + turn // len(COMBINATIONS)) % len(COMBINATIONS)])
            level, beta, estimator = (chosen.pop(name) for name in ("level", "beta", "kl_estimator"))
            case = case_for(description, realise(description, dtype, level), loss_type, level, beta)
            yield replace(case, spec=replace(case.spec, kl_estimator=estimator, conventions=Conventions(**chosen)))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_no_correct_wording_diverges(dtype: DType, seed: int) -> None:
    """Under any conventions: what wordings differ in is rounding and ties, and the bound covers both."""
    verdicts: Counter[Verdict] = Counter()
    failing = []
    for number, case in enumerate(cases(seed, dtype)):
        expectation = expect(case)
        for step in (0, 1):
            wording = WORDINGS[(number // len(LossType) + number + step) % len(WORDINGS)]
            judgement = judge(case, expectation, outcome_of(case, wording))
            verdicts[judgement.verdict] += 1
            if judgement.verdict.fails:
                failing.append((case.to_json(), wording, judgement.message))
    assert failing == []
    assert verdicts[Verdict.CONFORMS] > 500


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_no_correct_wording_diverges_at_a_tie(dtype: DType) -> None:
    """At a bound a clamp passes the gradient, a minimum half of it and a branch all or nothing: each may."""
    undecided: Counter[str] = Counter()
    failing = []
    for number, (name, case) in enumerate(tie_cases(dtype)):
        expectation = expect(case)
        undecided[name] += expectation.undecided
        for wording in WORDINGS[number % 3 :: 3]:
            judgement = judge(case, expectation, outcome_of(case, wording))
            if judgement.verdict.fails:
                failing.append((name, case.to_json(), wording, judgement.message))
    assert failing == []
    assert len(undecided) == 8
    assert min(undecided.values()) > 20


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("sign", [Advantage.POSITIVE, Advantage.NEGATIVE])
@pytest.mark.parametrize("dtype", [FLOAT64, FLOAT32, BFLOAT16], ids=lambda dtype: dtype.name)
def test_bounds_leave_no_overflow_to_excuse(dtype: DType, sign: Advantage, level: Level) -> None:
    """With its log-ratio held at 20 nothing overflows: a ratio that is infinite before it is held diverges."""
    row = Row(Layout.FULL, 1, (Ratio.OVERFLOW, Ratio.INSIDE), advantage=sign)
    batch = realise(Description((row,), columns=2), dtype, level)
    for loss_type in LossType:
        free = case_for(Description((row,), columns=2), batch, loss_type, level, 0.0)
        held = replace(free, spec=replace(free.spec, conventions=Conventions(log_ratio_bounds=(-20.0, 20.0))))
        expectation = expect(held)
        assert not expectation.loss_overflows
        assert not expectation.gradient_overflows.any()
        for wording in WORDINGS:
            assert judge(held, expectation, outcome_of(held, wording)).verdict is Verdict.CONFORMS
        unheld = outcome_of(free, WORDINGS[0])
        if unheld.gradient is not None and not np.isfinite(unheld.gradient).all():
            assert judge(held, expectation, unheld).verdict is Verdict.DIVERGES


@pytest.mark.parametrize("name", [name for name in CHOICES if name in OTHERWISE])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_another_convention_diverges(dtype: DType, name: str) -> None:
    """An implementation of one convention, judged by another, is found out in some case."""
    found = 0
    for case in islice(cases(0, dtype), 240):
        conventions = case.spec.conventions
        if getattr(conventions, name) == OTHERWISE[name]:
            continue
        other = replace(case, spec=replace(case.spec, conventions=replace(conventions, **{name: OTHERWISE[name]})))
        judgement = judge(case, expect(case), outcome_of(other, WORDINGS[0]))
        found += judgement.verdict is Verdict.DIVERGES
    assert found >= 3
