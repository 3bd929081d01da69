"""Cases designed to tell formulas apart, rather than to find any one of them wrong.

What merges formulas is avoided: completions of equal or full length, none empty, bounds that are alike, moves so
small that no clip acts, a reference equal to the policy, advantages of one sign, B = 1. Log-ratios have a mean of
1.4 or -0.7 and below in some completions, so that clips act at sequence level too, and a dual clip at 3, on ratios
and on inverted ones; k3 stays below 10, where clamps of the KL term begin.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import DType, FloatArray
from cases.spec import Level, LossSpec, LossType
from cases.split import Split
from harness.outcome import TargetSupport

BETA: Final = 0.04
SPLIT: Final = Split(ranks=1, accumulation_steps=2, steps_per_generation=2)

_LENGTHS: Final = (4, 2, 3, 1, 5, 0, 6, 3)
_MEANS: Final = (1.4, 1.4, -0.7, -1.4, 0.1, 0.0, 1.5, -0.05)
_SIGNS: Final = (1, -1, 1, -1, 1, 1, -1, -1)
_COLUMNS: Final = 7
_HORIZON: Final = 13


def probes(loss_type: LossType, level: Level, dtype: DType, supports: TargetSupport) -> list[tuple[Case, ...]]:
    """At most three probes of one loss and level, with all of what is supported that tells formulas apart.

    Each is the case to put, and plainer ones to put in its place where the target refuses it. The second has
    advantages per token, the third importance ratios and a split over accumulation steps, as the target has them.
    """

    def case(number: int, **features: bool) -> Case:
        return _case(number, loss_type, level, dtype, supports, **features)

    has = supports.options.__contains__
    first = case(1)
    second = case(2, token_advantages=has("token_advantages"))
    whole, weighed = has("split"), has("importance_ratio")
    ways = [(split, weighs) for split in (whole, False) for weighs in (weighed, False) if split or weighs]
    third = tuple(case(3, split=split, weighs=weighs) for split, weighs in dict.fromkeys(ways))
    return [(first,), (second,), *([third] if third else [])]


def _case(
    seed: int,
    loss_type: LossType,
    level: Level,
    dtype: DType,
    supports: TargetSupport,
    token_advantages: bool = False,
    split: bool = False,
    weighs: bool = False,
) -> Case:
    random = np.random.default_rng(seed)
    shape = (len(_LENGTHS), _COLUMNS)
    # Row by row in turn, so that the rows of two micro-batches differ.
    mask = np.array([_layout(length, random) for length in _LENGTHS])
    log_ratios = np.array(_MEANS)[:, None] + random.uniform(-0.3, 0.3, shape)
    logps = dtype.round(-random.uniform(0.2, 1.5, shape) + np.minimum(log_ratios, 0.0))
    kl = random.uniform(0.2, 1.5, shape) * random.choice([-1.0, 1.0], shape)
    sizes = random.uniform(0.5, 1.5, shape) * np.array(_SIGNS)[:, None]
    # In a completion of two signs every clip acts on one of them.
    per_token = np.where(np.arange(_COLUMNS) % 2, -sizes, sizes)
    off_policy, beta = "old_logps" in supports.options, BETA if "beta" in supports.options else 0.0
    return Case(
        Batch(
            dtype=dtype,
            logps=logps,
            old_logps=dtype.round(logps - log_ratios) if off_policy else None,
            ref_logps=dtype.round(logps + kl) if beta else None,
            advantages=dtype.round(per_token if token_advantages else sizes[:, 0]),
            mask=mask,
            importance_ratio=dtype.round(random.uniform(0.4, 1.6, shape)) if weighs else None,
        ),
        _spec(loss_type, level, beta),
        SPLIT if split else Split(),
    )


def _layout(length: int, random: np.random.Generator) -> FloatArray:
    mask = np.zeros(_COLUMNS, dtype=bool)
    mask[random.permutation(_COLUMNS)[:length]] = True
    return mask


def _spec(loss_type: LossType, level: Level, beta: float) -> LossSpec:
    # The bounds that each loss reads from them lie at about 0.8 and 1.6, and differ from each other's.
    bounds = {LossType.CISPO: (0.2, 1.6), LossType.GMPO: (0.2, 0.5)}.get(loss_type, (0.2, 0.6))
    return LossSpec(
        loss_type,
        level,
        beta,
        epsilon_low=bounds[0],
        epsilon_high=bounds[1],
        max_completion_length=_HORIZON,
        sapo_temperature_pos=0.5,
        sapo_temperature_neg=2.0,
    )
