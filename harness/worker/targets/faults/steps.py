"""The eight losses in plain mask-multiply torch, cut into small steps; a fault is one step done wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ...target import Spec, Split, TensorCase
from . import aggregates, terms
from .aggregates import Step
from .terms import Bounds

Aggregate = Callable[[Tensor], Tensor]
Loss = Callable[[TensorCase, Step], Tensor]


def as_given(case: TensorCase) -> TensorCase:
    """The case itself."""
    return case


def in_one_piece(loss: Loss, case: TensorCase, step: Step) -> Tensor:
    """The loss of all rows together."""
    return loss(case, step)


def kl_inside(policy: Tensor, kl: Tensor, _ratio: Tensor, case: TensorCase, aggregate: Aggregate) -> Tensor:
    """The KL term added to every token, then aggregated with it."""
    return aggregate(policy + case.spec.beta * kl)


@dataclass(frozen=True)
class Steps:
    """How a loss is computed; as they stand, the steps are correct for all losses and options."""

    inputs: Callable[[TensorCase], TensorCase] = as_given
    accumulate: Callable[[Loss, TensorCase, Step], Tensor] = in_one_piece
    log_ratio: Callable[[TensorCase], Tensor] = terms.log_ratio
    at_level: Callable[[Tensor, TensorCase], Tensor] = terms.at_level
    exp: Callable[[Tensor], Tensor] = torch.exp
    bounds: Callable[[TensorCase], Bounds] = terms.bounds
    clip: Callable[[Tensor, float | None, float], Tensor] = terms.clip
    cap: Callable[[Tensor, TensorCase], Tensor] = terms.cap
    surrogate: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = terms.smaller
    weighted: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = terms.weighted
    temperature: Callable[[Tensor, Spec], Tensor] = terms.temperature
    soft_gate: Callable[[Tensor, Tensor], Tensor] = terms.soft_gate
    log_weight: Callable[[Tensor, TensorCase], Tensor] = terms.log_weight
    clip_weight: Callable[[Tensor], Tensor] = terms.clip_weight
    shape: Callable[[Tensor, Spec], tuple[Tensor, Tensor]] = terms.shape
    gamma: Callable[[Tensor, Tensor, Tensor], Tensor] = terms.gamma
    reinforce: Callable[[Tensor, Tensor, Tensor], Tensor] = terms.by_constant
    drift: Callable[[TensorCase], Tensor] = terms.drift
    kept: Callable[[Tensor, TensorCase], Tensor] = terms.kept
    drop: Callable[[Tensor, Tensor], Tensor] = terms.drop
    weigh: Callable[[Tensor, Tensor], Tensor] = terms.weigh
    estimator: Callable[[Tensor], Tensor] = terms.k3
    correct_bias: Callable[[Tensor, Tensor], Tensor] = terms.correct_bias
    combine: Callable[[Tensor, Tensor, Tensor, TensorCase, Aggregate], Tensor] = kl_inside
    add: Callable[[Tensor], Tensor] = aggregates.add
    length: Callable[[Tensor], Tensor] = aggregates.length
    rows: Callable[[Tensor], int] = aggregates.rows
    share: Callable[[Tensor, Step], Tensor] = aggregates.share
    window: Callable[[Step], Tensor] = aggregates.window
    aggregate: Callable[[Tensor, TensorCase, Step, Steps], Tensor] = aggregates.by_loss_type
    join: Callable[[list[Tensor]], Tensor] = aggregates.mean_of_ranks
    factor: float = 1.0

    def loss(self, case: TensorCase) -> Tensor:
        """The loss of a case: of its micro-batches, added up on a rank and averaged over ranks."""
        case = self.inputs(case)
        if case.split == Split():
            return self.accumulate(self._loss, case, Step(case.split, case.mask, case.mask)) * self.factor
        ranks = case.split.judged(case.mask.shape[0])
        mask = torch.cat([case.mask[part] for parts in ranks for part in parts])
        step = Step(case.split, mask, case.mask)
        losses = [
            sum(self.accumulate(self._loss, case.rows(part), step).double() for part in parts) for parts in ranks
        ]
        return self.join(losses) * self.factor

    def _loss(self, case: TensorCase, step: Step) -> Tensor:
        log_ratios = self.log_ratio(case)
        ratio = self.exp(self.at_level(log_ratios, case))
        policy = -self._surrogate(log_ratios, ratio, case)
        if case.spec.off_policy_mask_threshold is not None:
            policy = self.drop(policy, self.kept(self.drift(case), case))
        if case.importance_ratio is not None and case.spec.loss_type != "vespo":
            policy = self.weigh(policy, case.importance_ratio)

        def aggregate(losses: Tensor) -> Tensor:
            # At sequence level a completion may have one loss for all its tokens.
            return self.aggregate(losses.expand_as(case.mask), case, step, self)

        if case.spec.beta == 0:
            return aggregate(policy)
        kl = self.estimator(case.ref_logps - case.logps)
        if case.spec.kl_estimator == "k3_bias_corrected":
            kl = self.correct_bias(kl, ratio)
        return self.combine(policy, kl, ratio, case, aggregate)

    def _surrogate(self, log_ratios: Tensor, ratio: Tensor, case: TensorCase) -> Tensor:
        """What the policy term maximises."""
        spec, advantages = case.spec, terms.by_token(case)
        if spec.loss_type == "sapo":
            return self.soft_gate(ratio, self.temperature(advantages, spec)) * advantages
        if spec.loss_type == "vespo":
            log_weights = self.clip_weight(self.log_weight(log_ratios, case))
            phi = self.gamma(log_weights, *self.shape(advantages, spec))
            return self.reinforce(phi, advantages, case.logps)
        clipped = self.clip(ratio, *self.bounds(case))
        if spec.loss_type == "cispo":
            return self.weighted(ratio, clipped, advantages, case.logps)
        first = ratio if spec.delta is None else self.cap(ratio, case)
        return self.surrogate(first, clipped, advantages, case.logps)
