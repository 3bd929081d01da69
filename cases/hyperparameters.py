"""From a description and its batch to a loss spec: hyper-parameters, with the options that the loss has."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.descriptions import Bounds, Delta, Description, Horizon, OffPolicyMask, Own
from cases.spec import KLEstimator, Level, LossSpec, LossType

DEFAULT_MAX_COMPLETION_LENGTH: Final = 256
OFF_POLICY_THRESHOLD: Final = 0.125


def case_for(description: Description, batch: Batch, loss_type: LossType, level: Level, beta: float) -> Case:
    """The case of a realised description in one cell.

    Without a KL term, every second description comes without reference log-probabilities, as trainers do.
    """
    if beta == 0 and description.seed % 2:
        batch = batch.without_reference
    return Case(batch, spec_for(description, batch, loss_type, level, beta), description.split)


def spec_for(description: Description, batch: Batch, loss_type: LossType, level: Level, beta: float) -> LossSpec:
    """The loss spec of a realised description in one cell; options that the loss does not have are left out."""
    epsilon_low, epsilon_high = _bounds(description, loss_type)
    longer = {
        Horizon.WIDTH: description.columns,
        Horizon.LONGER: description.columns + 3,
        Horizon.DEFAULT: DEFAULT_MAX_COMPLETION_LENGTH,
    }
    return LossSpec(
        loss_type=loss_type,
        importance_sampling_level=level,
        beta=beta,
        epsilon_low=epsilon_low,
        epsilon_high=epsilon_high,
        delta=delta_of(description) if loss_type.clips and description.delta is not Delta.NONE else None,
        off_policy_mask_threshold=_threshold(description, batch),
        kl_estimator=description.kl_estimator if beta > 0 else KLEstimator.K3,
        max_completion_length=longer[description.horizon],
        **_own(description),
    )


def _own(description: Description) -> dict[str, Any]:
    """sapo's temperatures, vespo's k and lambda; with other parameters, no two of them are equal.

    Every dtype holds the others, so that what is known of sapo's 1.05 in float64 covers none of them.
    """
    if description.own is Own.OTHER:
        return {
            "sapo_temperature_pos": 0.75,
            "sapo_temperature_neg": 1.625,
            "vespo_k_pos": 1.5,
            "vespo_lambda_pos": 2.5,
            "vespo_k_neg": 2.25,
            "vespo_lambda_neg": 1.25,
        }
    dyadic = description.bounds is Bounds.DYADIC
    return {"sapo_temperature_pos": 0.5 if dyadic else 1.0, "sapo_temperature_neg": 2.0 if dyadic else 1.05}


def _bounds(description: Description, loss_type: LossType) -> tuple[float, float]:
    """epsilon_low and epsilon_high that put the ratio's bounds where the description has them."""
    low, high = description.bounds.value
    match loss_type:
        case LossType.CISPO:
            # Its cap is absolute.
            return low, 1.0 + high
        case LossType.GMPO:
            # Its bounds are of the log-ratio.
            return -math.log1p(-low), math.log1p(high)
        case _:
            return low, high


def delta_of(description: Description) -> float:
    """The second upper bound: between 1 and the first bound, or well above it."""
    epsilon_high: float = description.bounds.value[1]
    return 1.0 + epsilon_high / 2 if description.delta is Delta.BELOW else 2.0 * (1.0 + epsilon_high)


def _threshold(description: Description, batch: Batch) -> float | None:
    """The off-policy threshold; at the drift of the first completion that it can drop, where that is asked for."""
    if description.off_policy_mask is OffPolicyMask.NONE:
        return None
    if description.off_policy_mask is OffPolicyMask.AT_THRESHOLD and batch.sampling_logps is not None:
        droppable = ((batch.token_advantages < 0) & batch.mask).any(axis=1)
        for row in np.flatnonzero(droppable):
            drift = (batch.sampling_logps[row] - batch.logps[row])[batch.mask[row]]
            return math.fsum(drift) / int(drift.size)
    return OFF_POLICY_THRESHOLD
