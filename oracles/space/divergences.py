"""The KL term of a token, by the estimator of a point."""

from __future__ import annotations

from typing import Final

from cases.spec import KLEstimator
from oracles.completions import Token
from oracles.kl import kl_term
from oracles.operations import exp, minimum, stop_gradient
from oracles.scalar import Scalar
from oracles.space.surrogates import Under
from oracles.space.variant import KL


def divergence_term(kl: KL, token: Token, ratio: Scalar, under: Under) -> Scalar:
    """The KL term of a token, without beta."""
    if kl in _ESTIMATORS:
        return kl_term(token, ratio, under(kl_estimator=_ESTIMATORS[kl]).parameters)
    assert token.ref_logp is not None, "a case with a KL term has a reference"
    x = token.ref_logp - token.logp
    match kl:
        case KL.K3_DETACHED:
            return stop_gradient(exp(x) - x - 1)
        case KL.K3_REVERSED:
            return exp(-x) + x - 1
        case KL.K3_LINEAR_SIGN:
            return exp(x) + x - 1
        case KL.K3_RATIO_DETACHED:
            return (exp(x) - x - 1) * stop_gradient(ratio)
        case KL.K3_CORRECTS_DETACHED:
            return stop_gradient(exp(x) - x - 1) * ratio
        case KL.K3_DIVIDED:
            return (exp(x) - x - 1) * exp(token.old_logp - token.logp)
        case _:
            return -minimum(x, -x)


_ESTIMATORS: Final = {
    KL.K1: KLEstimator.K1,
    KL.K2: KLEstimator.K2,
    KL.K3: KLEstimator.K3,
    KL.K3_BIAS_CORRECTED: KLEstimator.K3_BIAS_CORRECTED,
}
