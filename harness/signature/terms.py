"""Factors of the policy term and of the KL term, fitted to a gradient: got = alpha policy + kappa KL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.signature.evidence import Answered
from harness.signature.factors import Interval, named_factor
from oracles.expectation import expect


@dataclass(frozen=True)
class Fit:
    """The two factors of one case, with what rounding leaves open, and whether the loss shows each term at all."""

    policy: Interval
    kl: Interval
    policy_shows: bool
    kl_shows: bool


def fit(one: Answered) -> Fit | None:
    """The factors of one case; None where the two terms do not explain the gradient, or cannot be told apart."""
    case = one.case
    if case.spec.beta == 0 or one.outcome.gradient is None or one.expectation.undecided:
        return None
    mask = case.batch.mask
    # Beyond the dtype an exact number may be infinite in float64, and tells nothing.
    if not np.isfinite(one.expectation.gradients[0].high).all():
        return None
    bare = expect(replace(case, spec=replace(case.spec, beta=0.0)))
    exact, loss = one.expectation.gradients[0], one.expectation.loss
    policy = bare.gradients[0].high[mask]
    kl = exact.high[mask] - policy
    bound, got = exact.bound[mask], one.outcome.gradient[mask]
    usable = bound > 0
    if usable.sum() < 3 or not np.isfinite(got).all() or bare.undecided:
        return None
    weights = 1.0 / bound[usable]
    design = np.stack([policy[usable], kl[usable]], axis=1) * weights[:, None]
    solution, _, rank, _ = np.linalg.lstsq(design, got[usable] * weights, rcond=1e-6)
    if rank < 2:
        return None
    alpha, kappa = float(solution[0]), float(solution[1])
    reach = max(1.0, abs(alpha), abs(kappa))
    left = np.abs(design @ solution - got[usable] * weights)
    if (left > 2.0 * reach).any():
        return None
    # How far each factor may move before the residual leaves the bound.
    spread = np.sqrt(np.diag(np.linalg.inv(design.T @ design))) * reach * 2.0
    return Fit(
        Interval(alpha - float(spread[0]), alpha + float(spread[0])),
        Interval(kappa - float(spread[1]), kappa + float(spread[1])),
        policy_shows=bool(abs(bare.loss.high[0]) > 2.0 * loss.bound[0]),
        kl_shows=bool(abs(loss.high[0] - bare.loss.high[0]) > 2.0 * loss.bound[0]),
    )


def named_terms(cases: Sequence[Answered]) -> str:
    """What the two factors are in every case that tells, in words; "" where they are no named quantities."""
    fits = [(one, found) for one in cases if (found := fit(one)) is not None]
    if not fits:
        return ""
    policy = named_factor([(one, found.policy) for one, found in fits])
    kl = named_factor([(one, found.kl) for one, found in fits])
    right = [1.0 in found.policy for _, found in fits], [1.0 in found.kl for _, found in fits]
    # A loss that was not compared has a ratio of NaN, which says nothing against it.
    value_right = not any(one.judgement.loss.ratio > 1.0 for one, _ in fits)
    policy_right = value_right and any(found.policy_shows for _, found in fits)
    kl_right = value_right and any(found.kl_shows for _, found in fits)
    if all(right[0]) and not all(right[1]) and kl:
        return _words("KL term", kl, kl_right)
    if all(right[1]) and not all(right[0]) and policy:
        return _words("policy term", policy, policy_right)
    if policy and kl and policy != kl and not all(right[0]):
        return f"{_words('policy term', policy, policy_right)}, {_words('KL term', kl, kl_right)}"
    return ""


def _words(term: str, factor: str, value_right: bool) -> str:
    if value_right:
        return f"{term} without a gradient" if factor == "0" else f"gradient of the {term} x {factor}, loss right"
    if factor == "0":
        return f"{term} missing"
    if factor == "-1":
        return f"{term} with the wrong sign"
    return f"{term} x {factor}"
