"""Slips in the KL term of a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cases.case import Case
from cases.spec import KLEstimator, Level
from oracles.completions import Parameters, Token
from oracles.kl import kl_term
from oracles.operations import clip, exp, stop_gradient
from oracles.scalar import Scalar
from oracles.slips.steps import Change, Slip, Steps

Estimate = Callable[[Scalar, Token, Parameters], Scalar]


def _has_kl(case: Case) -> bool:
    return case.spec.beta > 0


def _off_policy(case: Case) -> bool:
    return _has_kl(case) and case.batch.old_logps is not None


def _corrected(case: Case) -> bool:
    return _has_kl(case) and case.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED


def _corrected_by_row(case: Case) -> bool:
    return _corrected(case) and case.spec.importance_sampling_level is Level.SEQUENCE


def _weighs(case: Case) -> bool:
    return _has_kl(case) and case.batch.importance_ratio is not None


def _samples(case: Case) -> bool:
    return _has_kl(case) and case.batch.sampling_logps is not None


def _k3(x: Scalar) -> Scalar:
    return exp(x) - x - 1


def _estimate(made: Estimate) -> Change:
    """k3, plain or bias-corrected, made otherwise from the log-ratio to the reference; k1 and k2 as they are."""

    def divergence(token: Token, ratio: Scalar, p: Parameters) -> Scalar:
        if p.spec.kl_estimator in (KLEstimator.K1, KLEstimator.K2) or token.ref_logp is None:
            return kl_term(token, ratio, p)
        term = made(token.ref_logp - token.logp, token, p)
        return term * ratio if p.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED else term

    return lambda steps, _case: replace(steps, divergence=divergence)


def _of_other(logp: Callable[[Token], Scalar | None]) -> Change:
    """The KL term of another policy's log-probabilities in the place of the current ones."""

    def divergence(token: Token, ratio: Scalar, p: Parameters) -> Scalar:
        other = logp(token)
        return kl_term(token if other is None else replace(token, logp=other), ratio, p)

    return lambda steps, _case: replace(steps, divergence=divergence)


def _times(factor: Callable[[Token, Scalar], Scalar | None]) -> Change:
    def divergence(token: Token, ratio: Scalar, p: Parameters) -> Scalar:
        by = factor(token, ratio)
        return kl_term(token, ratio, p) if by is None else kl_term(token, ratio, p) * by

    return lambda steps, _case: replace(steps, divergence=divergence)


def _by_own_ratio(steps: Steps, _case: Case) -> Steps:
    def divergence(token: Token, _ratio: Scalar, p: Parameters) -> Scalar:
        return kl_term(token, exp(token.logp - token.old_logp), p)

    return replace(steps, divergence=divergence)


def _by_clipped_ratio(steps: Steps, _case: Case) -> Steps:
    def divergence(token: Token, ratio: Scalar, p: Parameters) -> Scalar:
        return kl_term(token, clip(ratio, p.ratio_low, p.ratio_high), p)

    return replace(steps, divergence=divergence)


def _bounded_estimate(bound: float) -> Slip:
    return Slip(
        f"KL estimate clamped to {bound:g}",
        _estimate(lambda x, _t, p: clip(_k3(x), None, p.number(bound))),
        _has_kl,
    )


SLIPS: Sequence[Slip] = (
    Slip("KL term of old_logps, where logps are meant", _of_other(lambda token: token.old_logp), _off_policy),
    Slip(
        "KL term of old_logps, where logps are meant: without a gradient",
        _of_other(lambda token: stop_gradient(token.old_logp)),
        _has_kl,
    ),
    Slip("KL term of sampling_logps, where logps are meant", _of_other(lambda t: t.sampling_logp), _samples),
    # As choices of the space these replace the correction for bias, too; here it stays.
    Slip("KL term: k1", _estimate(lambda x, _t, _p: -x), _has_kl),
    Slip("KL term: k2", _estimate(lambda x, _t, _p: x * x / 2), _has_kl),
    Slip("KL term: k3 with logps and ref_logps exchanged", _estimate(lambda x, _t, _p: _k3(-x)), _has_kl),
    Slip(
        "KL term: k3 with the wrong sign of its linear part", _estimate(lambda x, _t, _p: exp(x) + x - 1), _has_kl
    ),
    Slip("k3 without its linear part", _estimate(lambda x, _t, _p: exp(x) - 1), _has_kl),
    Slip("k3 without its -1", _estimate(lambda x, _t, _p: exp(x) - x), _has_kl),
    Slip("k3 with its linear part detached", _estimate(lambda x, _t, _p: exp(x) - stop_gradient(x) - 1), _has_kl),
    Slip("k3 with its exponential detached", _estimate(lambda x, _t, _p: stop_gradient(exp(x)) - x - 1), _has_kl),
    Slip("k2 without its factor 1/2", _estimate(lambda x, _t, _p: x * x), _has_kl),
    Slip("x exp(x) - exp(x) + 1 as the KL term", _estimate(lambda x, _t, _p: x * exp(x) - exp(x) + 1), _has_kl),
    Slip("log-ratio to the reference as the KL term", _estimate(lambda x, _t, _p: x), _has_kl),
    *(_bounded_estimate(bound) for bound in (10.0, 5.0, 1.0, 20.0, 100.0)),
    Slip("KL term multiplied by the ratio", _times(lambda _token, ratio: ratio), _has_kl),
    Slip("KL term multiplied by the ratio twice", _times(lambda _token, ratio: ratio), _corrected),
    Slip("KL term multiplied by the advantage", _times(lambda token, _ratio: token.advantage), _has_kl),
    Slip(
        "no KL term where the advantage is 0",
        _times(lambda token, _ratio: None if token.advantage.mid else token.advantage),
        _has_kl,
    ),
    Slip(
        "no KL term where the advantage is below 0",
        _times(lambda token, _ratio: None if token.advantage.mid >= 0 else token.advantage.tape.number(0.0)),
        _has_kl,
    ),
    Slip("KL term corrected by the token's own ratio, not the completion's", _by_own_ratio, _corrected_by_row),
    Slip("KL term corrected by the clipped ratio", _by_clipped_ratio, _corrected),
    Slip("KL term divided by the importance ratio", _times(lambda token, _r: _inverse(token)), _weighs),
)


def _inverse(token: Token) -> Scalar | None:
    rho = token.importance_ratio
    return None if rho is None or not rho.mid else rho.tape.number(1 / rho.mid)
