"""The policy terms of a completion, by the surrogate of a point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cases.conventions import CispoClip
from oracles import cispo, gmpo, sapo
from oracles.completions import Completion, Formula, Parameters, Token
from oracles.operations import clip, minimum, stop_gradient
from oracles.scalar import Scalar
from oracles.space.variant import Surrogate
from oracles.terms import clipped_surrogate

USUAL_DUAL_CLIP: Final = 3.0
LARGEST_EPSILON_LOW: Final = 1.0 - 2.0**-20

Under = Callable[..., Formula]
"""Takes conventions, and hyper-parameters by name; gives the formula with these on the same tape."""


def surrogate_terms(
    surrogate: Surrogate, completion: Completion, ratio: Sequence[Scalar], under: Under
) -> list[Scalar]:
    """The policy term of every token; `gamma` has its own, with the importance ratio in it."""
    formula = under()
    spec, p = formula.parameters.spec, formula.parameters
    pairs = list(zip(ratio, completion, strict=True))
    match surrogate:
        case Surrogate.SOFT_GATE:
            return sapo.policy_terms(completion, ratio, formula)
        case Surrogate.GEOMETRIC:
            return gmpo.policy_terms(completion, formula)
        case Surrogate.CAP | Surrogate.CAP_TWO_SIDED:
            sides = CispoClip.CAP if surrogate is Surrogate.CAP else CispoClip.TWO_SIDED
            return cispo.policy_terms(completion, ratio, under({"cispo_clip": sides}))
        case Surrogate.CAP_ABOVE_ONE:
            above = under({"cispo_clip": CispoClip.CAP}, epsilon_high=1.0 + spec.epsilon_high)
            return cispo.policy_terms(completion, ratio, above)
        case Surrogate.DETACHED:
            return [-(stop_gradient(r) * token.advantage * token.logp) for r, token in pairs]
        case Surrogate.REINFORCE:
            return [-(token.advantage * token.logp) for token in completion]
        case Surrogate.UNCLIPPED:
            return [-_unclipped(r, token, p) for r, token in pairs]
        case Surrogate.CLIP_ALONE:
            return [-(clip(r, p.ratio_low, p.ratio_high) * token.advantage) for r, token in pairs]
        case Surrogate.CAP_PASSING:
            cap = p.ratio_cap
            return [-(clip(r, None, cap) * token.advantage * token.logp) for r, token in pairs]
        case Surrogate.CLIP_DETACHED:
            return [
                -(stop_gradient(clip(r, p.ratio_low, p.ratio_high)) * token.advantage * token.logp)
                for r, token in pairs
            ]
        case Surrogate.CLIP_LARGER | Surrogate.CLIP_PASSING:
            return [-_miswritten(surrogate, r, token, p) for r, token in pairs]
    p = _clipping(surrogate, under).parameters
    return [-clipped_surrogate(r, token.advantage, p) for r, token in pairs]


def _unclipped(ratio: Scalar, token: Token, p: Parameters) -> Scalar:
    """The clipped surrogate with bounds beyond every ratio."""
    delta = p.delta
    whole = ratio * token.advantage
    return whole if delta is None else minimum(minimum(ratio, delta) * token.advantage, whole)


def _miswritten(surrogate: Surrogate, ratio: Scalar, token: Token, p: Parameters) -> Scalar:
    first = ratio if p.delta is None else minimum(ratio, p.delta)
    clipped = clip(ratio, p.ratio_low, p.ratio_high)
    if surrogate is Surrogate.CLIP_LARGER:
        return -minimum(-(first * token.advantage), -(clipped * token.advantage))
    passing = stop_gradient(clipped) + (ratio - stop_gradient(ratio))
    return minimum(first * token.advantage, passing * token.advantage)


def _clipping(surrogate: Surrogate, under: Under) -> Formula:
    spec = under().parameters.spec
    low, high = spec.epsilon_low, spec.epsilon_high
    match surrogate:
        case Surrogate.DUAL_CLIP:
            return under({"dual_clip": spec.conventions.dual_clip or USUAL_DUAL_CLIP})
        case Surrogate.CLIP_BY_LOW:
            return under({"dual_clip": None}, epsilon_high=low)
        case Surrogate.CLIP_BY_HIGH:
            return under({"dual_clip": None}, epsilon_low=min(high, LARGEST_EPSILON_LOW))
        case Surrogate.CLIP_SWAPPED:
            return under({"dual_clip": None}, epsilon_low=min(high, LARGEST_EPSILON_LOW), epsilon_high=low)
        case _:
            return under({"dual_clip": None})
