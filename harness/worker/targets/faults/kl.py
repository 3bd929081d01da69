"""Faults in the KL term; x = log pi_ref - log pi."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ...target import TensorCase
from .fault import HALVES, ROW_MEANS, Fault
from .steps import Aggregate, Steps
from .terms import k3


def _subtracted(policy: Tensor, kl: Tensor, _ratio: Tensor, case: TensorCase, aggregate: Aggregate) -> Tensor:
    return aggregate(policy - case.spec.beta * kl)


def _by_ratio(policy: Tensor, kl: Tensor, ratio: Tensor, case: TensorCase, aggregate: Aggregate) -> Tensor:
    return aggregate(policy + case.spec.beta * kl * ratio)


def _plain_mean(policy: Tensor, kl: Tensor, _ratio: Tensor, case: TensorCase, aggregate: Aggregate) -> Tensor:
    return aggregate(policy) + case.spec.beta * kl.mean()


def _token_mean(policy: Tensor, kl: Tensor, _ratio: Tensor, case: TensorCase, aggregate: Aggregate) -> Tensor:
    tokens = case.mask.sum().clamp(min=1)
    return aggregate(policy) + case.spec.beta * (kl * case.mask).sum() / tokens


def _without_small(x: Tensor) -> Tensor:
    kl = k3(x)
    return torch.where(kl < 1e-4, torch.zeros_like(kl), kl)


def _beta_times(factor: float) -> Steps:
    def scaled(case: TensorCase) -> TensorCase:
        return replace(case, spec=replace(case.spec, beta=case.spec.beta * factor))

    return Steps(inputs=scaled)


def _fault(name: str, wrong: str, steps: Steps, drowned: tuple[str, ...] = ()) -> Fault:
    return Fault(name, wrong, steps, needs=("beta",), drowned=drowned)


FAULTS = (
    _fault("kl_sign", "the KL term is subtracted", Steps(combine=_subtracted)),
    _fault("k1", "the KL estimator is k1, -x, where k3 is meant", Steps(estimator=torch.neg)),
    _fault("k2", "the KL estimator is k2, x^2 / 2, where k3 is meant", Steps(estimator=lambda x: x * x / 2)),
    _fault(
        "k3_reversed",
        "k3 takes the log-ratio the wrong way round, exp(-x) + x - 1",
        Steps(estimator=lambda x: k3(-x)),
    ),
    _fault(
        "k3_lin_sign",
        "the linear part of k3 has the wrong sign, exp(x) + x - 1",
        Steps(estimator=lambda x: torch.exp(x) + x - 1),
    ),
    _fault("k3_clamp10", "k3 is clamped to 10", Steps(estimator=lambda x: torch.clamp(k3(x), -10, 10))),
    _fault(
        "kl_detached", "the KL term is detached and has no gradient", Steps(estimator=lambda x: k3(x).detach())
    ),
    _fault("kl_is_weighted", "the KL term is multiplied by the ratio", Steps(combine=_by_ratio)),
    _fault(
        "kl_unmasked", "the KL term is a mean over all positions, padding included", Steps(combine=_plain_mean)
    ),
    Fault(
        "kl_token_norm",
        "the KL term is a mean over tokens, whatever the loss does with the policy term",
        Steps(combine=_token_mean),
        loss_types=(*ROW_MEANS, "dr_grpo", "luspo"),
        needs=("beta",),
    ),
    _fault("kl_zero_lt_1e-4", "k3 below 1e-4 is taken for 0", Steps(estimator=_without_small)),
    _fault("beta_1pct", "beta is 1 % too large", _beta_times(1.01), drowned=("bfloat16",)),
    _fault("beta_0.1pct", "beta is 0.1 % too large", _beta_times(1.001), drowned=HALVES),
    Fault(
        "bias_ignored",
        "the KL term is not multiplied by the ratio where it should be",
        Steps(correct_bias=lambda kl, _ratio: kl),
        needs=("k3_bias_corrected",),
    ),
    Fault(
        "bias_ratio_detached",
        "the ratio that corrects the KL term is detached",
        Steps(correct_bias=lambda kl, ratio: kl * ratio.detach()),
        needs=("k3_bias_corrected",),
    ),
    Fault(
        "bias_kl_detached",
        "the KL term is detached where the ratio corrects it",
        Steps(correct_bias=lambda kl, ratio: kl.detach() * ratio),
        needs=("k3_bias_corrected",),
    ),
    Fault(
        "bias_inverted",
        "the KL term is divided by the ratio that it should be multiplied by",
        Steps(correct_bias=lambda kl, ratio: kl / ratio),
        needs=("k3_bias_corrected",),
    ),
)
