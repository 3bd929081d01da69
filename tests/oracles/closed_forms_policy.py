r"""Policy terms by hand, as functions of a ratio $r$ and an advantage $A$.

* Clipped surrogate: $L = -A \, \mathrm{clip}(r, a, b)$ and $D = r \, \partial L / \partial r = -A r$ inside, 0
  beyond. For $A > 0$ there is no $a$ and $b = \min(\delta, 1 + \epsilon_{high})$. For $A < 0$,
  $a = 1 - \epsilon_{low}$ and $b = \min(c, \max(\delta, 1 + \epsilon_{high}))$; a bound that is not there is
  infinite, and without $\delta$ only a dual clip $c$ bounds $r$ from above.
* SAPO: $L = -\frac{4}{\tau} \sigma(\tau (r - 1)) A$, $D = -A r \, \mathrm{sech}^2(\tau (r - 1) / 2)$.
* CISPO and VESPO: the detached weight $q$ of $-q A \ell$. VESPO has the importance ratio inside and clips
  logarithms by itself.

Nothing here comes from `oracles`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from flint import arb

from cases.conventions import CispoClip
from cases.spec import LossSpec, LossType

DETACHED: Final = (LossType.CISPO, LossType.VESPO)
"""Losses whose ratio passes no gradient."""

LARGEST_LOG: Final = 20
SMALLEST_LOG: Final = math.log(1e-8)


def term(spec: LossSpec, ratio: arb, advantage: arb) -> arb:
    """L of a token, of a loss whose ratio passes a gradient."""
    if spec.loss_type is LossType.SAPO:
        tau, half = _temperature(spec, ratio, advantage)
        return -2 / tau * (1 + half.tanh()) * advantage
    low, high = _bounds(spec, advantage)
    return -advantage * (low if ratio < low else high if ratio > high else ratio)


def slope_by_log_ratio(spec: LossSpec, ratio: arb, advantage: arb) -> arb:
    """D of a token: the derivative of L by the logarithm of the ratio."""
    if spec.loss_type is LossType.SAPO:
        _, half = _temperature(spec, ratio, advantage)
        return -advantage * ratio / half.cosh() ** 2
    low, high = _bounds(spec, advantage)
    return arb(0) if ratio < low or ratio > high else -advantage * ratio


def detached_weight(
    spec: LossSpec, ratio: arb, completion: Sequence[tuple[arb, float | None]], advantage: arb
) -> arb:
    """q of a token; `completion` has the log-ratio and the importance ratio of every token beside it."""
    if spec.loss_type is LossType.VESPO:
        return _gamma(spec, completion, advantage)
    low = arb(1) - arb(spec.epsilon_low)
    if spec.conventions.cispo_clip is CispoClip.TWO_SIDED and ratio < low:
        return low
    cap = arb(spec.epsilon_high)
    return cap if ratio > cap else ratio


def _temperature(spec: LossSpec, ratio: arb, advantage: arb) -> tuple[arb, arb]:
    tau = arb(spec.sapo_temperature_pos if advantage > 0 else spec.sapo_temperature_neg)
    return tau, tau * (ratio - 1) / 2


def _bounds(spec: LossSpec, advantage: arb) -> tuple[arb, arb]:
    """Between what the clipped surrogate holds the ratio."""
    first = 1 + arb(spec.epsilon_high)
    if advantage > 0:
        return arb(0), first if spec.delta is None else _narrowest(first, arb(spec.delta))
    if not advantage < 0:
        return arb(0), arb("+inf")
    dual = spec.conventions.dual_clip
    high = arb("+inf") if spec.delta is None else -_narrowest(-first, -arb(spec.delta))
    return 1 - arb(spec.epsilon_low), high if dual is None else _narrowest(high, arb(dual))


def _narrowest(ours: arb, theirs: arb) -> arb:
    return ours if ours < theirs else theirs


def _gamma(spec: LossSpec, completion: Sequence[tuple[arb, float | None]], advantage: arb) -> arb:
    """phi: W^k e^(lambda (1 - W)) of the completion's product of ratios."""
    log_weight = arb(0)
    for log_ratio, importance in completion:
        log_weight += _within(log_ratio, -LARGEST_LOG)
        if importance is not None:
            log_weight += _within(arb(importance).log() if importance else arb("-inf"), SMALLEST_LOG)
    weight = _within(log_weight, SMALLEST_LOG).exp()
    if advantage >= 0:
        k, lam = arb(spec.vespo_k_pos), arb(spec.vespo_lambda_pos)
    else:
        k, lam = arb(spec.vespo_k_neg), arb(spec.vespo_lambda_neg)
    return weight**k * (lam * (1 - weight)).exp()


def _within(log: arb, lowest: float) -> arb:
    if log > LARGEST_LOG:
        return arb(LARGEST_LOG)
    return arb(lowest) if log < lowest else log
