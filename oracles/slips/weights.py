"""Slips in the completion's weight: vespo's gamma weight, gmpo's geometric mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cases.case import Case
from cases.spec import LossType
from oracles import gmpo, vespo
from oracles.completions import Completion, Formula, Parameters, Token
from oracles.operations import clip, exp, minimum, stop_gradient
from oracles.scalar import Scalar
from oracles.slips.steps import Change, Slip, Steps

LogWeight = Callable[[Completion, Formula], Scalar]
Gamma = Callable[[Scalar, Token, Parameters], Scalar]


def _is_vespo(case: Case) -> bool:
    return case.spec.loss_type is LossType.VESPO


def _is_vespo_weighted(case: Case) -> bool:
    return _is_vespo(case) and case.batch.importance_ratio is not None


def _is_vespo_per_row(case: Case) -> bool:
    ratio = case.batch.importance_ratio
    return _is_vespo_weighted(case) and ratio is not None and ratio.shape[1] == 1 and case.batch.columns > 1


def _is_gmpo(case: Case) -> bool:
    return case.spec.loss_type is LossType.GMPO


def _sum(completion: Completion, formula: Formula) -> Scalar:
    p = formula.parameters
    importances = [part for token in completion for part in vespo.importance_logs(token, p)]
    return vespo.bounded(formula.total([*vespo.clipped_log_ratios(completion, p), *importances]), p)


def _unbounded(completion: Completion, formula: Formula) -> Scalar:
    p = formula.parameters
    importances = [part for token in completion for part in vespo.importance_logs(token, p)]
    return formula.total([*vespo.clipped_log_ratios(completion, p), *importances])


def _mean(completion: Completion, formula: Formula) -> Scalar:
    p = formula.parameters
    importances = [part for token in completion for part in vespo.importance_logs(token, p)]
    return vespo.bounded(
        formula.total([*vespo.clipped_log_ratios(completion, p), *importances]) / len(completion), p
    )


def _mean_beside_importance(completion: Completion, formula: Formula) -> Scalar:
    p = formula.parameters
    mean = formula.total(vespo.clipped_log_ratios(completion, p)) / len(completion)
    importances = [part for token in completion for part in vespo.importance_logs(token, p)]
    return vespo.bounded(formula.total([mean, *importances]), p)


def _without_importance(completion: Completion, formula: Formula) -> Scalar:
    p = formula.parameters
    return vespo.bounded(formula.total(vespo.clipped_log_ratios(completion, p)), p)


def _importance_once(completion: Completion, formula: Formula) -> Scalar:
    p = formula.parameters
    first = vespo.importance_logs(completion.tokens[0], p)
    return vespo.bounded(formula.total([*vespo.clipped_log_ratios(completion, p), *first]), p)


def _gamma(log_weight: Scalar, token: Token, p: Parameters) -> Scalar:
    return vespo.gamma(log_weight, *vespo.shape(token.advantage.mid >= 0, p))


def _gamma_without_factor(log_weight: Scalar, token: Token, p: Parameters) -> Scalar:
    k, lam = vespo.shape(token.advantage.mid >= 0, p)
    return exp(k * log_weight - lam * exp(log_weight))


def _gamma_without_tail(log_weight: Scalar, token: Token, p: Parameters) -> Scalar:
    k, _ = vespo.shape(token.advantage.mid >= 0, p)
    return exp(k * log_weight)


def _gamma_of(positive: bool) -> Gamma:
    return lambda log_weight, _token, p: vespo.gamma(log_weight, *vespo.shape(positive, p))


def _vespo(weight: LogWeight = _sum, gamma: Gamma = _gamma, detached: bool = True) -> Change:
    def policy(completion: Completion, _ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
        p = formula.parameters
        log_weight = weight(completion, formula)
        phis = [gamma(log_weight, token, p) for token in completion]
        return [
            -((stop_gradient(phi) if detached else phi) * token.advantage * token.logp)
            for phi, token in zip(phis, completion, strict=True)
        ]

    return lambda steps, _case: replace(steps, policy=policy)


def _gmpo(clipped: Callable[[Scalar, Token, Parameters], Scalar], mean: bool = True) -> Change:
    def policy(completion: Completion, _ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
        p = formula.parameters
        logs = [clipped(token.logp - token.old_logp, token, p) for token in completion]
        total = formula.total(logs)
        weight = exp(total / len(completion) if mean else total)
        return [-(weight * token.advantage) for token in completion]

    return lambda steps, _case: replace(steps, policy=policy)


def _clipped_mean(steps: Steps, _case: Case) -> Steps:
    """The mean log-ratio of a completion clipped, where each token's should be."""

    def policy(completion: Completion, _ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
        p = formula.parameters
        mean = formula.total([token.logp - token.old_logp for token in completion]) / len(completion)
        return [-(exp(gmpo.one_sided(mean, token, p)) * token.advantage) for token in completion]

    return replace(steps, policy=policy)


def _clipped_mean_on_both_sides(steps: Steps, _case: Case) -> Steps:
    def policy(completion: Completion, _ratio: Sequence[Scalar], formula: Formula) -> list[Scalar]:
        p = formula.parameters
        mean = formula.total([token.logp - token.old_logp for token in completion]) / len(completion)
        ratio, clipped = exp(mean), exp(_both_sided(mean, completion.tokens[0], p))
        return [-minimum(ratio * token.advantage, clipped * token.advantage) for token in completion]

    return replace(steps, policy=policy)


def _both_sided(log_ratio: Scalar, _token: Token, p: Parameters) -> Scalar:
    return clip(log_ratio, p.number(-p.spec.epsilon_low), p.number(p.spec.epsilon_high))


def _not_clipped(log_ratio: Scalar, _token: Token, _p: Parameters) -> Scalar:
    return log_ratio


SLIPS: Sequence[Slip] = (
    Slip("vespo's log W is the mean over the tokens, not their sum", _vespo(_mean), _is_vespo),
    Slip(
        "vespo's log W has the mean of the log-ratios, not their sum; importance ratios are summed",
        _vespo(_mean_beside_importance),
        _is_vespo,
    ),
    Slip("vespo's log W is not clipped", _vespo(_unbounded), _is_vespo),
    Slip("vespo's phi passes the gradient", _vespo(detached=False), _is_vespo),
    Slip("vespo's phi without its factor exp(lambda)", _vespo(gamma=_gamma_without_factor), _is_vespo),
    Slip("vespo's phi is W^k alone", _vespo(gamma=_gamma_without_tail), _is_vespo),
    Slip("vespo's parameters of positive advantages for both signs", _vespo(gamma=_gamma_of(True)), _is_vespo),
    Slip("vespo's parameters of negative advantages for both signs", _vespo(gamma=_gamma_of(False)), _is_vespo),
    Slip("vespo's log W without importance ratios", _vespo(_without_importance), _is_vespo_weighted),
    Slip(
        "vespo's log W has the importance ratio of a completion once, not for every token",
        _vespo(_importance_once),
        _is_vespo_per_row,
    ),
    Slip("gmpo's log-ratios clipped on both sides, whatever the advantage", _gmpo(_both_sided), _is_gmpo),
    Slip("gmpo clips the completion's mean log-ratio, not each token's", _clipped_mean, _is_gmpo),
    Slip("gmpo clips the completion's mean log-ratio, by the minimum", _clipped_mean_on_both_sides, _is_gmpo),
    Slip("gmpo's log-ratios not clipped", _gmpo(_not_clipped), _is_gmpo),
    Slip(
        "gmpo's ratio is the product of the tokens', not their geometric mean",
        _gmpo(gmpo.one_sided, False),
        _is_gmpo,
    ),
)
