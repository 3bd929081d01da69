"""The steps from a batch to the terms of its tokens, each of which a slip may replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cases.case import Case
from cases.spec import LossSpec, LossType
from oracles import cispo, gmpo, sapo, vespo
from oracles.completions import Completion, Formula, Parameters, Token
from oracles.kl import kl_term
from oracles.ratios import ratios
from oracles.scalar import Scalar
from oracles.terms import clipped_surrogate, keeps

Ratio = Callable[[Completion, Formula], Sequence[Scalar]]
Policy = Callable[[Completion, Sequence[Scalar], Formula], Sequence[Scalar]]
Kept = Callable[[Completion, Formula], Sequence[bool]]
Weight = Callable[[Token], Scalar | None]
Divergence = Callable[[Token, Scalar, Parameters], Scalar]


def clipped(completion: Completion, ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
    r"""$-\min(r_{it} A_{it}, \mathrm{clip}(r_{it}) A_{it})$ of every token."""
    p = formula.parameters
    return [-clipped_surrogate(r, token.advantage, p) for r, token in zip(ratio, completion, strict=True)]


def _vespo(completion: Completion, _ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
    return vespo.policy_terms(completion, formula)


def _gmpo(completion: Completion, _ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
    return gmpo.policy_terms(completion, formula)


_POLICY: Final[dict[LossType, Policy]] = {
    LossType.CISPO: cispo.policy_terms,
    LossType.SAPO: sapo.policy_terms,
    LossType.VESPO: _vespo,
    LossType.GMPO: _gmpo,
}


def importance(token: Token) -> Scalar | None:
    """What the policy term of a token is multiplied by, if by anything."""
    return token.importance_ratio


def _none(_token: Token) -> None:
    """vespo has the importance ratio in its weight."""


def _every(completion: Completion, _formula: Formula) -> list[bool]:
    return [True] * len(completion)


@dataclass(frozen=True)
class Steps:
    """How ratios, policy terms and KL terms of a completion's tokens are formed.

    `kept`: whether the off-policy mask leaves a token its policy term; `weight`: what multiplies that;
    `kl_kept`: whether a token has a KL term.
    """

    policy: Policy
    ratio: Ratio = ratios
    kept: Kept = keeps
    weight: Weight = importance
    divergence: Divergence = kl_term
    kl_kept: Kept = _every

    @classmethod
    def asked(cls, spec: LossSpec) -> Steps:
        """The steps of the loss that is asked for."""
        weight = _none if spec.loss_type is LossType.VESPO else importance
        return cls(_POLICY.get(spec.loss_type, clipped), weight=weight)

    def terms(self, completion: Completion, formula: Formula) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        """Policy terms, and KL terms without beta, of a completion that has tokens; none of KL where beta is 0."""
        p = formula.parameters
        ratio = self.ratio(completion, formula)
        zero = p.number(0.0)
        policy = []
        for token, term, kept in zip(
            completion, self.policy(completion, ratio, formula), self.kept(completion, formula), strict=True
        ):
            rho = self.weight(token)
            policy.append(zero if not kept else term if rho is None else term * rho)
        if p.beta is None:
            return tuple(policy), ()
        kept_too = self.kl_kept(completion, formula)
        divergence = [
            self.divergence(token, r, p) if kept else zero
            for token, r, kept in zip(completion, ratio, kept_too, strict=True)
        ]
        return tuple(policy), tuple(divergence)


Change = Callable[[Steps, Case], Steps]


@dataclass(frozen=True)
class Slip:
    """One step written wrong, in words; `concerns` says which cases show it at all."""

    words: str
    change: Change
    concerns: Callable[[Case], bool]
