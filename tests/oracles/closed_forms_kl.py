r"""KL estimates by hand, as functions of $x = \ell^{ref} - \ell$ and of the ratio $r$.

| estimator | $K$ | slope by $\ell$ through $x$ |
|---|---|---|
| k1 | $-x$ | 1 |
| k2 | $x^2 / 2$ | $-x$ |
| k3 | $e^x - x - 1$ | $1 - e^x$ |

Bias-corrected k3 is $r K$ with the k3 of the table; its slope by $\ln r$ is $r K$. Where $x$ is beyond its bound
the slope through it is 0, and where the estimate is beyond its own, every slope; a convention has no bounds for k1
and k2.

Nothing here comes from `oracles`.
"""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from cases.conventions import KLBounded
from cases.spec import KLEstimator, LossSpec


@dataclass(frozen=True)
class Estimate:
    """The terms of K, the terms of its slope through x, and its slope by ln r."""

    parts: tuple[arb, ...]
    own: tuple[arb, ...]
    by_log_ratio: arb


def estimate(spec: LossSpec, x: arb, ratio: arb) -> Estimate:
    """K of a token."""
    conventions = spec.conventions
    polynomial = spec.kl_estimator in (KLEstimator.K1, KLEstimator.K2)
    free = polynomial and conventions.kl_bounded is KLBounded.EXPONENTIAL
    held = x if free else _held(x, conventions.kl_log_ratio_bound)
    parts, own = _unbounded(spec.kl_estimator, held)
    if spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED:
        parts, own = tuple(ratio * part for part in parts), tuple(ratio * part for part in own)
    value = sum(parts, arb(0))
    bounded = value if free else _held(value, conventions.kl_bound)
    if bounded is not value:
        return Estimate((bounded,), (), arb(0))
    through = value if spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED else arb(0)
    return Estimate(parts, own if held is x else (), through)


def _held(value: arb, bound: float | None) -> arb:
    """The value, or the end of [-bound, bound] that it is beyond."""
    if bound is None or not abs(value) > bound:
        return value
    return arb(bound) if value > 0 else -arb(bound)


def _unbounded(estimator: KLEstimator, x: arb) -> tuple[tuple[arb, ...], tuple[arb, ...]]:
    match estimator:
        case KLEstimator.K1:
            return (-x,), (arb(1),)
        case KLEstimator.K2:
            return (x * x / 2,), (-x,)
        case KLEstimator.K3 | KLEstimator.K3_BIAS_CORRECTED:
            return (x.exp(), -x, arb(-1)), (arb(1), -x.exp())
