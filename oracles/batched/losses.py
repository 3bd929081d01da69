"""The policy terms of every loss, over arrays; the formulas and their sources are those of the literal oracles."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from cases.conventions import CispoClip
from cases.spec import LossType
from oracles.batched.array import Array
from oracles.batched.choices import clip, kept, minimum
from oracles.batched.double_double import Floats, is_single
from oracles.batched.edge import Flags
from oracles.batched.operations import bound_of_ratio, exp, log, sigmoid, signed, stop_gradient
from oracles.batched.quotient import by_constant, over
from oracles.batched.sums import gathered, total
from oracles.batched.terms import Terms

_LOG_HIGH: Final = 20.0
_SMALLEST: Final = 1e-8


def token_losses(terms: Terms) -> Array:
    """The loss of every token."""
    match terms.spec.loss_type:
        case LossType.VESPO:
            policy = _vespo(terms)
            return terms.token_losses(policy, terms.ratios(), weighs_ratio=False)
        case LossType.GMPO:
            policy = _gmpo(terms)
            return terms.token_losses(policy, terms.ratios())
        case LossType.CISPO:
            ratio = terms.ratios()
            return terms.token_losses(_cispo(terms, ratio), ratio)
        case LossType.SAPO:
            ratio = terms.ratios()
            return terms.token_losses(_sapo(terms, ratio), ratio)
        case _:
            ratio = terms.ratios()
            return terms.token_losses(-terms.clipped_surrogate(ratio), ratio)


def _cispo(terms: Terms, ratio: Array) -> Array:
    two_sided = terms.conventions.cispo_clip is CispoClip.TWO_SIDED
    cap = bound_of_ratio(terms.parameter("epsilon_high"))
    capped = clip(ratio, terms.ratio_low if two_sided else None, cap)
    return -(stop_gradient(capped) * terms.advantage * terms.logp)


def _sapo(terms: Terms, ratio: Array) -> Array:
    tau = _by_sign(terms, terms.signs > 0, "sapo_temperature_pos", "sapo_temperature_neg")
    gate = sigmoid(tau * (ratio - 1)) * 4
    return -(over(gate, by_constant(tau)) * terms.advantage)


def _vespo(terms: Terms) -> Array:
    number = terms.tape.number
    lowest, high = number(math.log(_SMALLEST)), number(_LOG_HIGH)
    parts = [terms.bounded(terms.log_ratio(), _LOG_HIGH)]
    if terms.importance is not None:
        weights = np.asarray(terms.importance.mid)
        below = weights <= _SMALLEST
        logs = clip(log(np.where(below, 1.0, weights), terms.logp), lowest, high)
        parts.append(_chosen(below, lowest, logs))
    log_weight = clip(total(parts), lowest, high)
    positive = terms.signs >= 0
    k = _by_sign(terms, positive, "vespo_k_pos", "vespo_k_neg")
    lam = _by_sign(terms, positive, "vespo_lambda_pos", "vespo_lambda_neg")
    phi = exp(lam + k * gathered(log_weight) - lam * gathered(exp(log_weight)))
    return -(stop_gradient(phi) * terms.advantage * terms.logp)


def _gmpo(terms: Terms) -> Array:
    log_ratio = terms.clipped_log(terms.log_ratio())
    signs = np.sign(terms.signs)
    bound = _by_sign(terms, terms.signs > 0, "epsilon_high", "epsilon_low")
    if (signs > 0).all():
        clipped = minimum(log_ratio, bound)
    else:
        # max(x, -bound) where the advantage is below 0.
        both = np.where(signs == 0.0, 1.0, signs)
        clipped = signed(minimum(signed(log_ratio, both), bound, signs == 0.0), both)
        clipped = kept(clipped, signs != 0.0)
    mean = exp(over(total([clipped]), terms.divisor_lengths))
    return -(gathered(mean) * terms.advantage)


def _by_sign(terms: Terms, positive: Flags, one: str, other: str) -> Array:
    """A hyper-parameter that depends on the sign of the advantage, one number a token."""
    return _chosen(positive, terms.parameter(one), terms.parameter(other))


def _chosen(where: Flags, one: Array, other: Array) -> Array:
    """Constants, one of two for each token."""
    return Array(
        one.tape,
        (np.where(where, one.mid, other.mid), _low(where, one, other)),
        np.where(where, one.radius, other.radius),
        np.where(where, one.magnitude, other.magnitude),
        np.where(where, one.gain, other.gain),
        1.0,
        max(one.top, other.top),
        (),
    )


def _low(where: Flags, one: Array, other: Array) -> Floats:
    if is_single(one.value) and is_single(other.value):
        return 0.0
    return np.where(where, one.value[1], other.value[1])
