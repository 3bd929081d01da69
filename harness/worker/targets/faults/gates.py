"""Faults in what takes the place of a clip: sapo's sigmoid and vespo's phi."""

from __future__ import annotations

import torch
from torch import Tensor

from ...target import Spec, TensorCase
from .fault import Fault
from .steps import Steps
from .terms import HIGHEST, chosen, completion_mean, gamma, log_importance, shape, soft_gate, temperature


def _zero_is_positive(advantages: Tensor, spec: Spec) -> Tensor:
    return chosen(advantages >= 0, spec.sapo_temperature_pos, spec.sapo_temperature_neg, advantages)


def _without_factor(ratio: Tensor, tau: Tensor) -> Tensor:
    return torch.sigmoid(tau * (ratio - 1))


def _straight_gate(ratio: Tensor, tau: Tensor) -> Tensor:
    return soft_gate(ratio, tau).detach() + (ratio - ratio.detach())


def _mean_weight(log_ratios: Tensor, case: TensorCase) -> Tensor:
    logs = log_ratios.clamp(-HIGHEST, HIGHEST)
    if case.importance_ratio is not None:
        logs = logs + log_importance(case.importance_ratio)
    return completion_mean(logs, case)


def _zero_is_negative(advantages: Tensor, spec: Spec) -> tuple[Tensor, Tensor]:
    return shape(advantages - (advantages == 0).to(advantages.dtype), spec)


def _other_sign(advantages: Tensor, spec: Spec) -> tuple[Tensor, Tensor]:
    return shape(-advantages, spec)


def _usual_temperature(advantages: Tensor, _spec: Spec) -> Tensor:
    return chosen(advantages > 0, 1.0, 1.05, advantages)


def _usual_shape(advantages: Tensor, _spec: Spec) -> tuple[Tensor, Tensor]:
    positive = advantages >= 0
    return chosen(positive, 2.0, 3.0, advantages), chosen(positive, 3.0, 2.0, advantages)


def _with_gradient(phi: Tensor, advantages: Tensor, logps: Tensor) -> Tensor:
    return phi * advantages * logps


def _without_lambda(log_weights: Tensor, k: Tensor, lam: Tensor) -> Tensor:
    return gamma(log_weights, k, lam) * torch.exp(-lam)


def _sapo(name: str, wrong: str, steps: Steps, equivalent: bool = False) -> Fault:
    return Fault(name, wrong, steps, ("sapo",), equivalent=equivalent)


def _vespo(name: str, wrong: str, steps: Steps, equivalent: bool = False, drowned: tuple[str, ...] = ()) -> Fault:
    return Fault(name, wrong, steps, ("vespo",), equivalent=equivalent, drowned=drowned)


FAULTS = (
    _sapo(
        "sapo_tau_swapped",
        "the temperatures of the two signs are exchanged",
        Steps(temperature=lambda advantages, spec: temperature(-advantages, spec)),
    ),
    _sapo(
        "sapo_one_tau",
        "every advantage takes the temperature of positive ones",
        Steps(temperature=lambda advantages, spec: temperature(advantages.abs(), spec)),
    ),
    _sapo(
        "sapo_tau_at_zero",
        "nothing: an advantage of 0 takes the temperature of positive ones, but has no policy term",
        Steps(temperature=_zero_is_positive),
        equivalent=True,
    ),
    _sapo(
        "sapo_tau_fixed",
        "the temperatures are 1 and 1.05, whatever is asked for",
        Steps(temperature=_usual_temperature),
    ),
    _sapo("sapo_no_factor", "the sigmoid is not multiplied by 4 / tau", Steps(soft_gate=_without_factor)),
    _sapo(
        "sapo_at_ratio",
        "the sigmoid is of tau r, not of tau (r - 1)",
        Steps(soft_gate=lambda ratio, tau: soft_gate(ratio + 1, tau)),
    ),
    _sapo("sapo_straight_through", "the gradient passes the sigmoid unchanged", Steps(soft_gate=_straight_gate)),
    _vespo("vespo_signs_swapped", "k and lambda are those of the other sign", Steps(shape=_other_sign)),
    _vespo(
        "vespo_sign_at_zero",
        "nothing: an advantage of 0 takes k and lambda of negative ones, but has no policy term",
        Steps(shape=_zero_is_negative),
        equivalent=True,
    ),
    _vespo(
        "vespo_shape_fixed",
        "k and lambda are 2, 3 and 3, 2, whatever is asked for",
        Steps(shape=_usual_shape),
    ),
    _vespo("vespo_phi_gradient", "the gradient passes through phi", Steps(reinforce=_with_gradient)),
    _vespo("vespo_mean", "log W is the mean over the tokens, not the sum", Steps(log_weight=_mean_weight)),
    _vespo(
        "vespo_unclipped",
        "log W is not clipped",
        Steps(clip_weight=lambda log_weights: log_weights),
        # It has no room for e^20.
        drowned=("float16",),
    ),
    _vespo("vespo_no_exp_lambda", "phi lacks its factor exp(lambda)", Steps(gamma=_without_lambda)),
)
