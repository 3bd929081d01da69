"""Cases made by hand, inside every region of input space and just outside it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import FLOAT16, FLOAT32, FLOAT64, DType
from cases.spec import KLEstimator, Level, LossSpec, LossType
from cases.split import Mode, Split

LOW, HIGH = math.log(0.75), math.log(1.25)


def token(log_ratio: float = 0.0, advantage: float = 1.0, ref: float = 0.5, **options: Any) -> Case:
    """One token with a log-ratio, an advantage and a reference; the bounds are [0.75, 1.25]."""
    return tokens([[log_ratio]], advantage=advantage, ref=ref, **options)


def tokens(
    log_ratios: Any = None,
    mask: Any = None,
    advantage: Any = 1.0,
    ref: float = 0.5,
    dtype: DType = FLOAT64,
    on_policy: bool = False,
    **spec: Any,
) -> Case:
    """A batch of these log-ratios, or of this mask with ratio 1."""
    shape = np.shape(log_ratios if mask is None else mask)
    log_ratios = np.zeros(shape) if log_ratios is None else np.array(log_ratios)
    advantages = np.full(shape[:1], advantage) if np.ndim(advantage) == 0 else np.array(advantage)
    batch = Batch(
        dtype=dtype,
        logps=dtype.round(np.minimum(log_ratios, 0.0)),
        old_logps=None if on_policy else dtype.round(np.minimum(log_ratios, 0.0) - log_ratios),
        ref_logps=dtype.round(np.minimum(log_ratios, 0.0) + ref),
        advantages=advantages,
        mask=np.ones(shape, dtype=bool) if mask is None else np.array(mask, dtype=bool),
    )
    options = {"loss_type": LossType.GRPO, "beta": 0.5, "epsilon_low": 0.25, "epsilon_high": 0.25, **spec}
    return Case(batch, LossSpec(**options))


def ulps(bound: float, count: float) -> float:
    """A log-ratio so many ulps of the bound away from it."""
    return bound + count * float(FLOAT64.ulp(math.exp(bound))) / math.exp(bound)


SEQUENCE = {"importance_sampling_level": Level.SEQUENCE}
CISPO = {"loss_type": LossType.CISPO, "epsilon_high": 1.25}
SPREAD = [[HIGH + 0.5, HIGH - 0.5]]

HAND_MADE: dict[str, tuple[list[Case], list[Case]]] = {
    "ratio_inside": (
        [token(0.0), token(HIGH - 0.01), token(LOW + 0.01), tokens([[2.0, -2.0]], **SEQUENCE)],
        [token(HIGH), token(0.5), token(-0.5), token(on_policy=True), tokens([[2.0, -2.0]]), tokens(mask=[[0]])],
    ),
    "ratio_at_low": (
        [token(LOW), token(ulps(LOW, 3)), token(ulps(LOW, -3)), token(LOW, dtype=FLOAT32)],
        [token(ulps(LOW, 9)), token(ulps(LOW, -9)), token(HIGH), token(LOW, **CISPO)],
    ),
    "ratio_at_high": (
        [token(HIGH), token(ulps(HIGH, 3)), token(HIGH, **CISPO), tokens(SPREAD, **SEQUENCE)],
        [token(ulps(HIGH, 9)), token(ulps(HIGH, -9)), token(LOW), tokens(SPREAD), token(HIGH, epsilon_high=0.5)],
    ),
    "ratio_just_below_low": (
        [token(ulps(LOW, -10)), token(ulps(LOW, -250))],
        [token(LOW), token(ulps(LOW, 10)), token(ulps(LOW, -300)), token(ulps(LOW, -10), **CISPO)],
    ),
    "ratio_just_above_high": (
        [token(ulps(HIGH, 10)), token(ulps(HIGH, 250)), token(ulps(HIGH, 10), **CISPO)],
        [token(HIGH), token(ulps(HIGH, -10)), token(ulps(HIGH, 300))],
    ),
    "clipped_high": (
        [token(0.5), token(0.5, **CISPO), tokens([[0.5, -0.5]], advantage=[[1.0, -1.0]])],
        [
            token(0.5, -1.0),
            token(0.5, 0.0),
            token(HIGH),
            token(-0.5),
            tokens([[0.5, -0.5]], advantage=[[-1.0, 1.0]]),
        ],
    ),
    "clipped_low": (
        [token(-0.5, -1.0)],
        [token(-0.5), token(-0.5, 0.0), token(LOW, -1.0), token(0.5, -1.0), token(-0.5, -1.0, **CISPO)],
    ),
    "unclipped_high": ([token(0.5, -1.0)], [token(0.5), token(0.5, 0.0), token(HIGH, -1.0), token(-0.5, -1.0)]),
    "unclipped_low": (
        [token(-0.5)],
        [token(-0.5, -1.0), token(-0.5, 0.0), token(LOW), token(0.5), token(-0.5, **CISPO)],
    ),
    "ratio_far": (
        [token(1.2), tokens([[1.2, 1.2]], **SEQUENCE)],
        [token(1.0), tokens([[1.2, 0.0]], **SEQUENCE), tokens([[1.2, 0.0]], [[0, 1]])],
    ),
    "log_ratio_beyond_20": ([token(20.5), token(-20.5)], [token(20.0), token(-19.5), token(on_policy=True)]),
    "ratio_overflow": (
        [token(89.0, dtype=FLOAT32), token(11.5, dtype=FLOAT16), token(710.0)],
        [token(88.0, dtype=FLOAT32), token(11.0, dtype=FLOAT16), token(89.0)],
    ),
    "on_policy": ([token(on_policy=True)], [token()]),
    "advantage_positive": ([token(advantage=0.5)], [token(advantage=-0.5), token(advantage=0.0)]),
    "advantage_negative": ([token(advantage=-0.5)], [token(advantage=0.5), token(advantage=0.0)]),
    "advantage_zero": (
        [token(advantage=0.0), tokens(mask=[[1, 1]], advantage=[[0.0, 1.0]])],
        [token(advantage=1e-30), tokens(mask=[[0, 1]], advantage=[[0.0, 1.0]])],
    ),
    "advantage_huge": ([token(advantage=1000.0), token(advantage=-2000.0)], [token(advantage=999.0)]),
    "advantage_tiny": (
        [token(advantage=1e-4), token(advantage=-1e-30)],
        [token(advantage=0.0), token(advantage=2e-4)],
    ),
    "advantage_per_token": ([tokens(mask=[[1, 1]], advantage=[[1.0, 1.0]])], [tokens(mask=[[1, 1]])]),
    "ref_equal": ([token(ref=0.0)], [token(ref=1e-9), token(ref=0.0, beta=0.0)]),
    "ref_near": (
        [token(ref=0.009), token(ref=-1e-9)],
        [token(ref=0.0), token(ref=0.02), token(ref=0.009, beta=0.0)],
    ),
    "ref_above": ([token(ref=2.75)], [token(ref=2.5), token(ref=-12.0), token(ref=2.75, beta=0.0)]),
    "ref_below": ([token(ref=-11.5)], [token(ref=-10.5), token(ref=12.0), token(ref=-11.5, beta=0.0)]),
    "one_token": ([token(), tokens(mask=[[0]])], [tokens(mask=[[1, 0]]), tokens(mask=[[1], [1]])]),
    "one_row": ([token(), tokens(mask=[[1, 1]])], [tokens(mask=[[1, 1], [1, 1]])]),
    "one_column": ([token(), tokens(mask=[[1], [1]])], [tokens(mask=[[1, 0]])]),
    "square": ([tokens(mask=np.ones((2, 2)))], [token(), tokens(mask=np.ones((2, 3)))]),
    "row_empty": ([tokens(mask=[[0, 0], [1, 0]])], [tokens(mask=[[0, 0], [0, 0]]), tokens(mask=[[1, 0], [1, 0]])]),
    "batch_empty": ([tokens(mask=[[0, 0], [0, 0]])], [tokens(mask=[[0, 0], [1, 0]])]),
    "row_of_one_token": ([tokens(mask=[[0, 1]])], [token(), tokens(mask=[[1, 1]]), tokens(mask=[[0, 0]])]),
    "row_full": ([tokens(mask=[[1, 0], [1, 1]]), token()], [tokens(mask=[[1, 0], [0, 1]])]),
    "masked_position": ([tokens(mask=[[1, 0]]), tokens(mask=[[0]])], [token(), tokens(mask=[[1, 1]])]),
    "holes": (
        [tokens(mask=[[1, 0, 1]]), tokens(mask=[[0, 1, 0]])],
        [tokens(mask=[[1, 1, 0]]), tokens(mask=[[1, 1, 1]]), tokens(mask=[[0, 0, 0]])],
    ),
    "lengths_equal": (
        [tokens(mask=[[1, 0], [0, 1]])],
        [
            tokens(mask=[[1, 0]]),
            tokens(mask=[[1, 1], [1, 1]]),
            tokens(mask=[[1, 0], [1, 1]]),
            tokens(mask=np.zeros((2, 2))),
        ],
    ),
    "lengths_ragged": ([tokens(mask=[[1, 0], [1, 1]])], [tokens(mask=[[1, 0], [0, 1]]), token()]),
    "bounds_asymmetric": (
        [token(epsilon_high=0.5), token(epsilon_low=0.2)],
        [token(), token(epsilon_low=0.3, epsilon_high=0.3)],
    ),
    "bounds_dyadic": ([token(), token(epsilon_high=2.0)], [token(epsilon_low=0.2), token(epsilon_high=0.28)]),
}


def drifting(drift: float, advantage: float = -1.0, threshold: float | None = 0.5, **options: Any) -> Case:
    """Two tokens of a completion whose sampling log-probabilities lie `drift` above the current ones."""
    plain = tokens([[0.0, 0.0]], advantage=advantage, off_policy_mask_threshold=threshold, **options)
    sampled = plain.batch.logps + np.array([[drift - 0.25, drift + 0.25]])
    return replace(plain, batch=replace(plain.batch, sampling_logps=sampled))


def split(lengths: list[int], dtype: DType = FLOAT64, **parts: Any) -> Case:
    """Completions of these lengths, split."""
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return replace(tokens(mask=mask, dtype=dtype), split=Split(**parts))


def weighted(ratio: list[list[float]], mask: list[list[int]] | None = None) -> Case:
    """Two completions of two tokens with this importance ratio."""
    plain = tokens(mask=mask or [[1, 1], [1, 0]])
    return replace(plain, batch=replace(plain.batch, importance_ratio=np.array(ratio)))


DELTA = math.log(2.0)
SAPO = {"loss_type": LossType.SAPO}
BY_TWO = {"accumulation_steps": 2, "steps_per_generation": 2}
FOUR = [1, 1, 1, 1]
TEMPERATE = {"sapo_temperature_pos": 0.5, "sapo_temperature_neg": 2.0}

OPTIONS_BY_HAND: dict[str, tuple[list[Case], list[Case]]] = {
    "delta_above": ([token(delta=2.0)], [token(), token(delta=1.0), token(delta=1.25)]),
    "delta_below": ([token(delta=1.0)], [token(), token(delta=2.0), token(delta=1.25)]),
    "ratio_at_delta": (
        [token(DELTA, delta=2.0), token(ulps(DELTA, -3), delta=2.0)],
        [token(DELTA), token(ulps(DELTA, 9), delta=2.0), token(ulps(DELTA, -9), delta=2.0)],
    ),
    "ratio_above_delta": (
        [token(1.0, delta=2.0), token(ulps(DELTA, 9), delta=2.0)],
        [token(1.0), token(DELTA, delta=2.0), token(0.5, delta=2.0)],
    ),
    "kl_bias_corrected": ([token(kl_estimator=KLEstimator.K3_BIAS_CORRECTED)], [token()]),
    "importance_per_token": ([weighted([[1, 2], [3, 4]])], [weighted([[1], [2]]), token()]),
    "importance_per_row": ([weighted([[1], [2]])], [weighted([[1, 2], [3, 4]]), token()]),
    "importance_zero": (
        [weighted([[1, 0], [1, 1]]), weighted([[0], [1]])],
        [weighted([[1, 1], [1, 0]]), weighted([[1], [2]]), token()],
    ),
    "off_policy_dropped": (
        [drifting(1.0), drifting(0.0, threshold=-0.5)],
        [drifting(0.0), drifting(1.0, 1.0), drifting(1.0, threshold=None), drifting(0.5)],
    ),
    "off_policy_kept": (
        [drifting(0.0), drifting(0.5)],
        [drifting(1.0), drifting(0.0, 1.0), drifting(0.0, threshold=None)],
    ),
    "off_policy_at_threshold": (
        [drifting(0.5), drifting(0.5 + 2.0**-52)],
        [drifting(0.625), drifting(0.375), drifting(0.5, 1.0), drifting(0.5, threshold=None)],
    ),
    "accumulation": (
        [split(FOUR, **BY_TWO)],
        [split(FOUR), split(FOUR, ranks=2), split(FOUR, steps_per_generation=2)],
    ),
    "ranks": ([split(FOUR, ranks=2)], [split(FOUR), split(FOUR, **BY_TWO)]),
    "generation_batch": ([split(FOUR, steps_per_generation=2)], [split(FOUR), split(FOUR, **BY_TWO)]),
    "micro_batches_uneven": (
        [split([1, 2, 3, 3], **BY_TWO), split([1, 2, 3, 3], ranks=2)],
        # Of a generation batch the first step is judged, of a single micro-batch here.
        [split([1, 2, 2, 1], **BY_TWO), split([1, 2, 3, 4]), split([1, 2, 3, 3], steps_per_generation=2)],
    ),
    "eval_mode": ([split(FOUR, ranks=2, mode=Mode.EVAL)], [split(FOUR, ranks=2)]),
    "temperature_beyond_float32": (
        [token(**SAPO), token(**SAPO, **{**TEMPERATE, "sapo_temperature_pos": 0.7})],
        [token(**SAPO, **TEMPERATE), token()],
    ),
    "window_beyond_float32": (
        [split([1, 1, 2], ranks=3), split([1, 1, 2], dtype=FLOAT16, ranks=3)],
        [split([1, 1, 1], ranks=3), split(FOUR, ranks=2), token()],
    ),
}
