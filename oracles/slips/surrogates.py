"""Slips in the policy term."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from cases.case import Case
from cases.spec import LossType
from oracles import sapo
from oracles.completions import Completion, Formula, Parameters, Token
from oracles.operations import clip, minimum, sigmoid, stop_gradient
from oracles.scalar import Scalar
from oracles.slips.steps import Change, Slip

Term = Callable[[Scalar, Token, Parameters], Scalar]


def _of(*loss_types: LossType) -> Callable[[Case], bool]:
    return lambda case: case.spec.loss_type in loss_types


def _clips(case: Case) -> bool:
    return case.spec.loss_type.clips


def _has_delta(case: Case) -> bool:
    return _clips(case) and case.spec.delta is not None


def _term(term: Term) -> Change:
    """The policy term of a token made otherwise from its ratio."""

    def policy(completion: Completion, ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
        p = formula.parameters
        return [-term(r, token, p) for r, token in zip(ratio, completion, strict=True)]

    return lambda steps, _case: replace(steps, policy=policy)


def _capped(ratio: Scalar, p: Parameters) -> Scalar:
    return ratio if p.delta is None else minimum(ratio, p.delta)


def _smaller(first: Scalar, second: Scalar, token: Token) -> Scalar:
    return minimum(first * token.advantage, second * token.advantage)


def _without_upper(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return _smaller(_capped(r, p), clip(r, p.ratio_low, None), token)


def _without_lower(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return _smaller(_capped(r, p), clip(r, None, p.ratio_high), token)


def _smaller_ratio(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return minimum(_capped(r, p), clip(r, p.ratio_low, p.ratio_high)) * token.advantage


def _larger_ratio(r: Scalar, token: Token, p: Parameters) -> Scalar:
    clipped = clip(r, p.ratio_low, p.ratio_high)
    return -minimum(-_capped(r, p), -clipped) * token.advantage


def _dropped(r: Scalar, token: Token, p: Parameters) -> Scalar:
    """r A where the clip does not act, 0 where it does."""
    above = token.advantage.mid > 0 and r.mid > p.ratio_high.mid
    below = token.advantage.mid < 0 and r.mid < p.ratio_low.mid
    return p.number(0.0) if above or below else _capped(r, p) * token.advantage


def _dropped_outside(r: Scalar, token: Token, p: Parameters) -> Scalar:
    outside = r.mid > p.ratio_high.mid or r.mid < p.ratio_low.mid
    return p.number(0.0) if outside else _capped(r, p) * token.advantage


def _gradient_inside(r: Scalar, token: Token, p: Parameters) -> Scalar:
    term = _smaller(_capped(r, p), clip(r, p.ratio_low, p.ratio_high), token)
    outside = r.mid > p.ratio_high.mid or r.mid < p.ratio_low.mid
    return stop_gradient(term) if outside else term


def _dropped_beyond(bound: float) -> Term:
    def term(r: Scalar, token: Token, p: Parameters) -> Scalar:
        if abs(math.log(r.mid)) > bound if r.mid > 0 else True:
            return p.number(0.0)
        return _smaller(_capped(r, p), clip(r, p.ratio_low, p.ratio_high), token)

    return term


def _delta_on_both(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return _smaller(_capped(r, p), _capped(clip(r, p.ratio_low, p.ratio_high), p), token)


def _delta_on_clipped(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return _smaller(r, _capped(clip(r, p.ratio_low, p.ratio_high), p), token)


def _delta_as_bound(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return _smaller(r, clip(r, p.ratio_low, p.delta), token)


def _delta_below(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return _smaller(clip(r, p.delta, None), clip(r, p.ratio_low, p.ratio_high), token)


def _delta_where(sign: float) -> Term:
    def term(r: Scalar, token: Token, p: Parameters) -> Scalar:
        first = _capped(r, p) if token.advantage.mid * sign > 0 else r
        return _smaller(first, clip(r, p.ratio_low, p.ratio_high), token)

    return term


def _delta_floor(r: Scalar, token: Token, p: Parameters) -> Scalar:
    """The objective is at least delta A, whatever the sign of A."""
    assert p.delta is not None, "concerns cases with delta"
    usual = _smaller(r, clip(r, p.ratio_low, p.ratio_high), token)
    return -minimum(-usual, -(p.delta * token.advantage))


def _gate_alone(sign: float) -> Term:
    return lambda r, token, p: sign * sapo.gate(r, _temperature(token, p))


def _ratio_alone(r: Scalar, _token: Token, p: Parameters) -> Scalar:
    return clip(r, p.ratio_low, p.ratio_high)


def _delta_passing(r: Scalar, token: Token, p: Parameters) -> Scalar:
    passing = stop_gradient(_capped(r, p)) + (r - stop_gradient(r))
    return _smaller(passing, clip(r, p.ratio_low, p.ratio_high), token)


def _temperature(token: Token, p: Parameters) -> Scalar:
    return sapo.temperature(token.advantage.mid > 0, p)


def _gate(made: Callable[[Scalar, Scalar], Scalar]) -> Change:
    """sapo's gate made otherwise from the ratio and the temperature."""
    return _term(lambda r, token, p: made(r, _temperature(token, p)) * token.advantage)


def _by_ratio(r: Scalar, token: Token, p: Parameters) -> Scalar:
    return sapo.gate(r, sapo.temperature(r.mid > 1, p)) * token.advantage


def _cap_where(sign: float) -> Term:
    def term(r: Scalar, token: Token, p: Parameters) -> Scalar:
        capped = clip(r, None, p.ratio_cap) if token.advantage.mid * sign > 0 else r
        return stop_gradient(capped) * token.advantage * token.logp

    return term


def _passing_gate(r: Scalar, tau: Scalar) -> Scalar:
    return stop_gradient(sapo.gate(r, tau)) + (r - stop_gradient(r))


_SAPO = _of(LossType.SAPO)
_CISPO = _of(LossType.CISPO)

SLIPS: Sequence[Slip] = (
    Slip("ratio not clipped above", _term(_without_upper), _clips),
    Slip("ratio not clipped below", _term(_without_lower), _clips),
    Slip("min(r, clip(r)) A, where min(r A, clip(r) A) is meant", _term(_smaller_ratio), _clips),
    Slip("max(r, clip(r)) A, where min(r A, clip(r) A) is meant", _term(_larger_ratio), _clips),
    Slip("tokens that the clip acts on have no policy term", _term(_dropped), _clips),
    Slip("tokens with a ratio outside the clip bounds have no policy term", _term(_dropped_outside), _clips),
    Slip(
        "no gradient where the ratio is outside the clip bounds, whatever the sign of the advantage",
        _term(_gradient_inside),
        _clips,
    ),
    *(
        Slip(
            f"tokens with a log-ratio beyond {bound:g} have no policy term", _term(_dropped_beyond(bound)), _clips
        )
        for bound in (20.0, 10.0, 5.0, 3.0, 2.0)
    ),
    Slip("delta bounds the clipped ratio, too", _term(_delta_on_both), _has_delta),
    Slip("delta bounds the clipped ratio, not the unclipped one", _term(_delta_on_clipped), _has_delta),
    Slip("delta in the place of 1 + epsilon_high", _term(_delta_as_bound), _has_delta),
    Slip("delta bounds the ratio from below", _term(_delta_below), _has_delta),
    Slip("delta acts for negative advantages alone", _term(_delta_where(-1.0)), _has_delta),
    Slip("delta acts for positive advantages alone", _term(_delta_where(1.0)), _has_delta),
    Slip("objective of at least delta A for positive advantages, too", _term(_delta_floor), _has_delta),
    Slip("policy term not multiplied by the advantage", _term(_ratio_alone), _clips),
    Slip("ratios that delta bounds pass the gradient", _term(_delta_passing), _has_delta),
    Slip("sapo's gate without its factor 4 / temperature", _gate(lambda r, tau: sigmoid(tau * (r - 1))), _SAPO),
    Slip(
        "sapo's gate with the factor 4, not 4 / temperature",
        _gate(lambda r, tau: sigmoid(tau * (r - 1)) * 4),
        _SAPO,
    ),
    Slip("sapo's gate at the ratio, not at ratio - 1", _gate(lambda r, tau: sigmoid(tau * r) * 4 / tau), _SAPO),
    Slip(
        "sapo's gate divides by the temperature inside the sigmoid",
        _gate(lambda r, tau: sigmoid((r - 1) / tau) * 4 / tau),
        _SAPO,
    ),
    Slip(
        "sapo's gate at temperature x ratio - 1, not temperature x (ratio - 1)",
        _gate(lambda r, tau: sigmoid(tau * r - 1) * 4 / tau),
        _SAPO,
    ),
    Slip("sapo's temperature chosen by the ratio, not by the sign of the advantage", _term(_by_ratio), _SAPO),
    Slip("ratio capped for positive advantages alone", _term(_cap_where(1.0)), _CISPO),
    Slip("ratio capped for negative advantages alone", _term(_cap_where(-1.0)), _CISPO),
    Slip("policy term not multiplied by the advantage", _term(_gate_alone(1.0)), _SAPO),
    Slip("policy term not multiplied by minus the advantage", _term(_gate_alone(-1.0)), _SAPO),
    Slip("sapo's gate passes the gradient unchanged", _gate(_passing_gate), _SAPO),
    Slip("sapo's gate without a gradient", _gate(lambda r, tau: stop_gradient(sapo.gate(r, tau))), _SAPO),
    Slip(
        "capped ratio, not detached, without log-probabilities",
        _term(lambda r, token, p: clip(r, None, p.ratio_cap) * token.advantage),
        _CISPO,
    ),
    Slip(
        "ratio not detached and not capped",
        _term(lambda r, token, _p: r * token.advantage * token.logp),
        _CISPO,
    ),
)
