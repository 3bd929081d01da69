"""Cases in which a number lies at a bound to the last bit or so, made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.conventions import Conventions, SequenceGradient
from cases.dtypes import DType
from cases.spec import KLEstimator, Level, LossSpec, LossType

ULPS: Final = (-1, 0, 1)
"""How far from the bound, in roundings of a number near 1."""

ADVANTAGES: Final = (1.0, -1.5, 0.0)
CERTAIN: Final = 0.0
"""The log-probability of a token that is certain: a difference with it is not rounded."""


def tie_cases(dtype: DType) -> Iterator[tuple[str, Case]]:
    """Every kind of tie, by name."""
    for ulps, advantage in product(ULPS, ADVANTAGES):
        beside = 1.0 + 2 * ulps * dtype.unit_roundoff
        for name, cases in (
            ("log-ratio", _log_ratios(dtype, beside, advantage)),
            ("kl log-ratio", _kl_log_ratios(dtype, beside, advantage)),
            ("kl", _kl(dtype, beside, advantage)),
            ("dual clip", _dual_clips(dtype, beside, advantage)),
            ("delta", _deltas(dtype, beside, advantage)),
            ("both bounds", _narrow(dtype, beside, advantage)),
            ("gmpo", _gmpo(dtype, beside, advantage)),
            ("two at once", _together(dtype, beside, advantage)),
        ):
            yield from ((name, case) for case in cases)


def _batch(dtype: DType, logp: float, log_ratios: Sequence[float], xs: Sequence[float], advantages: Any) -> Batch:
    """One completion of these log-ratios and these differences to the reference."""
    logps = dtype.round(np.full((1, len(log_ratios)), logp))
    return Batch(
        dtype=dtype,
        logps=logps,
        old_logps=dtype.round(logps - np.array([log_ratios])),
        ref_logps=dtype.round(logps + np.array([xs])),
        advantages=dtype.round(advantages),
        mask=np.ones(logps.shape, dtype=bool),
    )


def _log_ratios(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    for bound, logp in product((-20.0, -0.125, 0.1, 0.125, 10.0), (-1.0, CERTAIN)):
        bounds = (bound, None) if bound < 0 else (None, bound)
        batch = _batch(dtype, logp, [bound * beside], [0.5], [advantage])
        for loss_type in (LossType.GRPO, LossType.SAPO, LossType.GMPO):
            for level, way in product(Level, SequenceGradient):
                conventions = Conventions(log_ratio_bounds=bounds, sequence_gradient=way)
                corrected = KLEstimator.K3_BIAS_CORRECTED
                spec = LossSpec(loss_type, level, beta=0.04, kl_estimator=corrected, conventions=conventions)
                yield Case(batch, spec)


def _kl_log_ratios(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    for x, logp, estimator in product((0.3, -0.5, -10.0, -20.0), (-1.0, CERTAIN), KLEstimator):
        batch = _batch(dtype, logp, [0.05], [x * beside], [advantage])
        conventions = Conventions(kl_log_ratio_bound=abs(x))
        yield Case(batch, LossSpec(LossType.GRPO, beta=1.0, kl_estimator=estimator, conventions=conventions))


def _kl(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    for bound, x, estimators in (
        (0.5, -0.5, (KLEstimator.K1,)),
        (0.5, 0.5, (KLEstimator.K1,)),
        (10.0, -10.0, (KLEstimator.K1,)),
        (0.5, 1.0, (KLEstimator.K2,)),
        (8.0, -4.0, (KLEstimator.K2,)),
        (10.0, 2.6105795, (KLEstimator.K3, KLEstimator.K3_BIAS_CORRECTED)),
        (10.0, -10.999983, (KLEstimator.K3, KLEstimator.K3_BIAS_CORRECTED)),
    ):
        batch = _batch(dtype, -1.0, [0.05], [x * beside], [advantage])
        for estimator, first in product(estimators, (None, abs(x))):
            conventions = Conventions(kl_bound=bound, kl_log_ratio_bound=first)
            yield Case(batch, LossSpec(LossType.GRPO, beta=1.0, kl_estimator=estimator, conventions=conventions))


def _dual_clips(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    for bound, delta, level in product((3.0, 1.2, 1.1), (None, 3.0, 1.1), Level):
        log_ratio = math.log(bound * beside)
        batch = _batch(dtype, -0.125, [log_ratio], [0.5], [advantage])
        for bounds in ((None, None), (None, math.log(bound))):
            conventions = Conventions(dual_clip=bound, log_ratio_bounds=bounds)
            yield Case(batch, LossSpec(LossType.GRPO, level, delta=delta, conventions=conventions))


def _deltas(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    """A ratio at 1 + epsilon_high and a second bound a little below it, under advantages of either sign."""
    for roundings, level in product((4, 8, 16, 32), Level):
        log_ratio = math.log(1.1 * beside)
        batch = _batch(dtype, -0.125, [log_ratio] * 3, [0.5] * 3, [[advantage, -1.25, 0.75]])
        delta = 1.1 * (1 - roundings * dtype.unit_roundoff)
        yield Case(batch, LossSpec(LossType.GRPO, level, epsilon_high=0.1, delta=delta))


def _narrow(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    """A ratio at 1, and bounds so near that they are 1 too once they are rounded."""
    epsilon = dtype.unit_roundoff / 4
    batch = _batch(dtype, -0.125, [math.log(beside)] * 2, [0.5] * 2, [[advantage, -1.25]])
    for loss_type, level in product((LossType.GRPO, LossType.LUSPO), Level):
        yield Case(batch, LossSpec(loss_type, level, epsilon_low=epsilon, epsilon_high=epsilon))


def _gmpo(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    for epsilon, sign, epsilon_too in product((0.25, 0.4), (1.0, -1.0), (False, True)):
        at = sign * epsilon * beside
        conventions = Conventions(
            log_ratio_bounds=(-epsilon, epsilon) if epsilon_too else (None, None), denominator_epsilon=1e-8
        )
        spec = LossSpec(LossType.GMPO, epsilon_low=epsilon, epsilon_high=epsilon, conventions=conventions)
        for log_ratios, advantages in product(
            ([at, 0.1], [at, at], [at, -at]), ([advantage], [[advantage, -advantage]], [[advantage, 0.0]])
        ):
            batch = _batch(dtype, -0.125, log_ratios, [0.5, 0.25], advantages)
            yield Case(batch, spec)


def _together(dtype: DType, beside: float, advantage: float) -> Iterator[Case]:
    """A ratio at 1 + epsilon_high, and x at its bound."""
    log_ratio = math.log(1.2 * beside)
    batch = _batch(dtype, -0.125, [log_ratio] * 2, [0.5, -0.5], [[advantage, -0.5]])
    for level, way, estimator in product(Level, SequenceGradient, KLEstimator):
        for bounds in ((None, None), (None, math.log(1.2))):
            conventions = Conventions(kl_log_ratio_bound=0.5, log_ratio_bounds=bounds, sequence_gradient=way)
            spec = LossSpec(LossType.GRPO, level, beta=1.0, kl_estimator=estimator, conventions=conventions)
            yield Case(batch, spec)
