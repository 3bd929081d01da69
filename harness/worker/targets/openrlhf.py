"""OpenRLHF: its `PolicyLoss` and `compute_approx_kl`, called and added up as its PPO actor does it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..importing import import_from, taken_from, versions_of
from ..probes import probe
from ..source import source_of
from ..standins import stand_in
from ..steps import step_loss, step_masks
from ..target import Split, Support, Target, TensorCase, Unavailable

_STAND_INS = ("peft", "flash_attn", "deepspeed", "pylatexenc")
_COMPANIONS = ("transformers", "torch")

_KINDS = {"token": "ppo", "sequence": "gspo"}
_NEEDED = {
    "PolicyLoss": ("clip_eps_low", "clip_eps_high", "dual_clip", "token_level_loss", "policy_loss_type"),
    "compute_approx_kl": ("log_probs", "log_probs_base", "kl_estimator"),
}


class Norms:
    """What a micro-batch is told of its optimizer step: `dp_size`, and its tokens and completions on all ranks."""

    replaced = (
        "the masks of all ranks are added up in one process, which OpenRLHF does by all_reduce",
        "DeepSpeed's part is done here: losses of micro-batches are divided by their number, added up on a rank, "
        "and averaged over ranks",
    )

    def __init__(self, losses: ModuleType) -> None:
        (module,) = import_from("openrlhf", "openrlhf.utils.loss_utils")
        (self._norm,) = taken_from("openrlhf", module, "_optimizer_step_loss_norm")
        (self._aggregate,) = taken_from("openrlhf", losses, "aggregate_loss")

    def of(self, case: TensorCase) -> dict[str, Any]:
        """The totals of the judged step of a case, as keywords of a loss."""
        ranks = step_masks(case)
        totals: dict[str, Any] = self._norm(
            [mask for rank in ranks for mask in rank], None, len(ranks), len(ranks[0])
        )
        # It counts on the GPU where there is one, whatever the device of the masks.
        return {name: x.to(case.device) if isinstance(x, Tensor) else x for name, x in totals.items()}

    def mean(self, kl: Tensor, mask: Tensor, totals: Mapping[str, Any]) -> Tensor:
        """The KL term of a micro-batch."""
        mean: Tensor = self._aggregate(kl, mask, **totals)
        return mean


class NoNorms:
    """Releases whose micro-batches know nothing of their step."""

    replaced: tuple[str, ...] = ()

    def __init__(self, utils: ModuleType) -> None:
        (self._masked_mean,) = taken_from("openrlhf", utils, "masked_mean")

    def of(self, _case: TensorCase) -> dict[str, Any]:
        """Nothing."""
        return {}

    def mean(self, kl: Tensor, mask: Tensor, _totals: Mapping[str, Any]) -> Tensor:
        """The KL term of a micro-batch."""
        mean: Tensor = self._masked_mean(kl, mask)
        return mean


class OpenRLHF(Target):
    """OpenRLHF's losses: `grpo` is its seq-mean-token-mean, `bnpo` and `dapo` are its token-mean.

    A spec's `delta` is its `dual_clip`: the two are one where delta is above the clip bound.
    """

    def __init__(self, losses: ModuleType, utils: ModuleType, norms: Norms | NoNorms, made: Sequence[str]) -> None:
        self.versions: Mapping[str, str] = versions_of("openrlhf", *_COMPANIONS)
        self.label = f"openrlhf {self.versions['openrlhf']}"
        (self._policy_loss,) = taken_from("openrlhf", losses, "PolicyLoss")
        (self._approx_kl,) = taken_from("openrlhf", utils, "compute_approx_kl")
        for function in (self._policy_loss, self._approx_kl):
            lacking = [
                name for name in _NEEDED[function.__name__] if name not in inspect.signature(function).parameters
            ]
            if lacking:
                what = f"{function.__name__} takes no {', '.join(lacking)}"
                raise Unavailable("broken", f"{self.label} has another interface: its {what}")
        self.source = source_of(self._policy_loss.forward)
        self._norms = norms
        knows_steps = isinstance(norms, Norms)
        options = ("beta", "old_logps", "token_advantages", "delta", "k1", "k2")
        self.supports = Support(
            loss_types=("grpo", "bnpo", "dapo"), options=(*options, "split") if knows_steps else options
        )
        bounds = [-20.0, 20.0] if self._bounds_log_ratio() else [None, None]
        self.conventions = {
            "empty_rows": "not_counted" if knows_steps else "counted",
            "padding": ["finite"],
            "log_ratio_bounds": bounds,
            "kl_bound": 10.0,
            "kl_aggregation": "token_mean",
        }
        self.conventions_by_loss = {"grpo/sequence": {"log_ratio_bounds": [None, None]}}
        self.replaced = (
            "policy loss and KL term are added up here, as ActorPPOTrainer.training_step does",
            *norms.replaced,
            *(f"{name} is a stand-in: only imports need it" for name in made),
        )

    def refusal(self, case: TensorCase) -> str | None:
        return super().refusal(case) or self._lacks(case)

    def _lacks(self, case: TensorCase) -> str | None:
        spec = case.spec
        if spec.importance_sampling_level == "sequence" and spec.loss_type != "grpo":
            return "OpenRLHF's gspo takes the mean of completions' token means, which is grpo"
        if spec.delta is not None and spec.delta < 1 + spec.epsilon_high:
            return "OpenRLHF's dual_clip is no bound below 1 + clip_eps_high: it acts on advantages below 0 alone"
        if spec.beta != 0 and case.dtype == torch.float64:
            return "OpenRLHF computes its KL term in float32, whatever the dtype of the log-probabilities"
        if case.split.mode == "eval":
            return "OpenRLHF takes no loss in evaluation"
        if case.split != Split() and spec.loss_type == "bnpo":
            return "OpenRLHF takes one token mean over a whole step, not one for each micro-batch"
        return None

    def loss(self, case: TensorCase) -> Tensor:
        policy_loss = self._policy_loss(
            clip_eps_low=case.spec.epsilon_low,
            clip_eps_high=case.spec.epsilon_high,
            dual_clip=case.spec.delta,
            token_level_loss=case.spec.loss_type != "grpo",
            policy_loss_type=_KINDS[case.spec.importance_sampling_level],
        )
        totals = self._norms.of(case)
        steps = len(case.split.judged(case.mask.shape[0])[0])
        return step_loss(case, lambda part: self._micro_batch(policy_loss, part, totals) / steps)

    def _micro_batch(self, policy_loss: Any, case: TensorCase, totals: Mapping[str, Any]) -> Tensor:
        """The loss that one micro-batch goes backward with."""
        spec = case.spec
        mask = case.mask.long()
        old = case.logps.detach() if case.old_logps is None else case.old_logps
        advantages = case.advantages.reshape(len(mask), -1).expand(mask.shape)
        loss: Tensor = policy_loss(case.logps, old, advantages, action_mask=mask, **totals)[0]
        if spec.beta == 0:
            return loss
        kl = self._approx_kl(log_probs=case.logps, log_probs_base=case.ref_logps, kl_estimator=spec.kl_estimator)
        return loss + self._norms.mean(kl, mask, totals) * spec.beta

    def _bounds_log_ratio(self) -> bool:
        """Whether the log-ratio of a token is bounded: releases differ, and nothing but a number shows it."""
        far = 25.0
        loss = self.loss(probe("bnpo", "token", [[1]], advantage=-1.0, log_ratio=far))
        return bool(loss.item() < math.exp(far) / 2)


def open_target(name: str, _options: Mapping[str, str]) -> Target:
    """The OpenRLHF that is installed here."""
    made = stand_in(*_STAND_INS)
    losses, utils = import_from(name, "openrlhf.models.loss", "openrlhf.models.utils")
    norms = Norms(losses) if hasattr(losses, "aggregate_loss") else NoNorms(utils)
    return OpenRLHF(losses, utils, norms, made)
