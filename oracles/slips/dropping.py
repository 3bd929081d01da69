"""Slips in the off-policy mask: which tokens lose their policy term."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cases.case import Case
from oracles.completions import Completion, Formula, Token
from oracles.scalar import Scalar
from oracles.slips.steps import Change, Slip, Steps
from oracles.terms import keeps

Drift = Callable[[Completion], float]
Drops = Callable[[Token, float, float], bool]


def _masks(case: Case) -> bool:
    return case.spec.off_policy_mask_threshold is not None


def _samples(case: Case) -> bool:
    return _masks(case) and case.batch.sampling_logps is not None


def _behaviour(token: Token) -> Scalar:
    return token.old_logp if token.sampling_logp is None else token.sampling_logp


def _drifts(completion: Completion) -> list[float]:
    return [float(_behaviour(token).value - token.logp.value) for token in completion]


def _mean(completion: Completion) -> float:
    return sum(_drifts(completion)) / len(completion)


def _drops(token: Token, drift: float, threshold: float) -> bool:
    return token.advantage.mid < 0 and drift > threshold


def _by(drift: Drift = _mean, drops: Drops = _drops) -> Change:
    def kept(completion: Completion, formula: Formula) -> list[bool]:
        threshold = formula.parameters.spec.off_policy_mask_threshold
        if threshold is None:
            return [True] * len(completion)
        found = drift(completion)
        return [not drops(token, found, threshold) for token in completion]

    return lambda steps, _case: replace(steps, kept=kept)


def _by_token(completion: Completion, formula: Formula) -> list[bool]:
    threshold = formula.parameters.spec.off_policy_mask_threshold
    if threshold is None:
        return [True] * len(completion)
    pairs = zip(completion, _drifts(completion), strict=True)
    return [not _drops(token, drift, threshold) for token, drift in pairs]


def _each_token(steps: Steps, _case: Case) -> Steps:
    return replace(steps, kept=_by_token)


def _with_kl(steps: Steps, case: Case) -> Steps:
    return replace(steps, kl_kept=keeps) if case.spec.beta > 0 else steps


def _old(completion: Completion) -> float:
    return sum(float(token.old_logp.value - token.logp.value) for token in completion) / len(completion)


def _old_to_sampling(completion: Completion) -> float:
    return sum(float(_behaviour(token).value - token.old_logp.value) for token in completion) / len(completion)


def _magnitude(completion: Completion) -> float:
    return sum(abs(drift) for drift in _drifts(completion)) / len(completion)


SLIPS: Sequence[Slip] = (
    Slip("off-policy mask drops the KL term, too", _with_kl, _masks),
    Slip("off-policy mask takes the drift with the wrong sign", _by(lambda one: -_mean(one)), _masks),
    Slip(
        "off-policy mask sums the drift of a completion, and takes no mean", _by(lambda c: sum(_drifts(c))), _masks
    ),
    Slip("off-policy mask takes the size of the mean drift", _by(lambda one: abs(_mean(one))), _masks),
    Slip("off-policy mask takes the mean size of the drift", _by(_magnitude), _masks),
    Slip("off-policy mask takes the largest drift of a completion", _by(lambda c: max(_drifts(c))), _masks),
    Slip("off-policy mask drops token by token, not whole completions", _each_token, _masks),
    Slip("off-policy mask reads old_logps, not sampling_logps", _by(_old), _samples),
    Slip("off-policy mask compares sampling_logps with old_logps", _by(_old_to_sampling), _samples),
    Slip("off-policy mask drops positive advantages, too", _by(drops=lambda _t, drift, at: drift > at), _masks),
    Slip(
        "off-policy mask drops positive advantages, not negative ones",
        _by(drops=lambda token, drift, at: token.advantage.mid > 0 and drift > at),
        _masks,
    ),
    Slip(
        "off-policy mask drops where the drift equals the threshold, too",
        _by(drops=lambda token, drift, at: token.advantage.mid < 0 and drift >= at),
        _masks,
    ),
    Slip(
        "off-policy mask drops below the threshold, not above it",
        _by(drops=lambda token, drift, at: token.advantage.mid < 0 and drift < at),
        _masks,
    ),
)
