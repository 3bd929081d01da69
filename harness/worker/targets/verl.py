"""verl: its registered policy losses and its KL term, put together by its own `ppo_loss` where it has one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from ..importing import import_from, taken_from, versions_of
from ..probes import probe
from ..source import source_of
from ..standins import stand_in, stand_in_for
from ..steps import step_loss, step_masks
from ..target import Spec, Split, Support, Target, TensorCase, Unavailable

_STAND_INS = ("ray", "codetiming", "orjson", "PIL")
_COMPANIONS = ("tensordict", "omegaconf", "transformers", "torch")

_TOKEN_MEANS = "seq-mean-token-mean"
_AGGREGATIONS = {
    "grpo": _TOKEN_MEANS,
    "bnpo": "token-mean",
    "dapo": "token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "luspo": "seq-mean-token-sum",
    "cispo": "token-mean",
    # Policy terms that heed no mode: the one that agrees with them, for the KL term.
    "sapo": _TOKEN_MEANS,
    "gmpo": _TOKEN_MEANS,
}
_CLIPPED = ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")
_LEVELS = {"token": "vanilla", "sequence": "gspo"}
_OTHERS = {"cispo": "cispo", "sapo": "sapo", "gmpo": "geo_mean"}
_KL = {"k3": "low_var_kl", "k1": "kl", "k2": "mse"}
_OPTIONS = ("beta", "old_logps", "token_advantages", "k1", "k2")
_WEIGHTS = "rollout_is_weights"
_SETTINGS = ("clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "policy_loss", "loss_agg_mode", "use_kl_loss")


class Engine:
    """A micro-batch as verl's engines have it: `ppo_loss`, which is told the totals of its step."""

    replaced = (
        "ppo_loss is given the case's logps as what the model returned, for rows of one prompt token and T others",
        "the engine's part is done here, in one process and without autocast: ppo_loss is told the ranks, tokens "
        "and rows of a step, the losses of micro-batches are added up on a rank and averaged over ranks",
    )

    def __init__(self, losses: ModuleType) -> None:
        self._ppo_loss, self._batch_class = taken_from("verl", losses, "ppo_loss", "TensorDict")
        (utils,) = import_from("verl", "verl.utils.tensordict_utils")
        (self._assign,) = taken_from("verl", utils, "assign_non_tensor")

    def loss(self, config: Any, case: TensorCase, totals: Mapping[str, int]) -> Tensor:
        """The loss of one micro-batch."""
        rows, columns = case.mask.shape
        tokens = case.mask.new_zeros((rows, 1 + columns), dtype=torch.long)
        batch = {
            "prompts": tokens[:, :1],
            "responses": tokens[:, 1:],
            "attention_mask": torch.ones_like(tokens),
            **_batch(case),
        }
        data = self._batch_class(batch, batch_size=[rows])
        self._assign(data, **totals)
        # A position scores the token after it: the first of a completion is scored at the end of its prompt.
        scores = torch.cat([case.logps, case.logps.new_zeros((rows, 1))], dim=1).reshape(-1)
        loss: Tensor = self._ppo_loss(config, {"log_probs": scores}, data)[0]
        return loss


class ActorWorker:
    """A micro-batch as `DataParallelPPOActor.update_policy` has it, in releases whose losses know of no step."""

    replaced = ("policy loss and KL term are added up here, as DataParallelPPOActor.update_policy does",)

    def __init__(self, algorithms: ModuleType) -> None:
        self._policy_loss, self._aggregate, self._kl_penalty = taken_from(
            "verl", algorithms, "get_policy_loss_fn", "agg_loss", "kl_penalty"
        )

    def loss(self, config: Any, case: TensorCase, _totals: Mapping[str, int]) -> Tensor:
        """The loss of one micro-batch."""
        batch, mode = _batch(case), config.loss_agg_mode
        mask = batch["response_mask"]
        loss: Tensor = self._policy_loss(config.policy_loss.loss_mode)(
            old_log_prob=batch["old_log_probs"],
            log_prob=case.logps,
            advantages=batch["advantages"],
            response_mask=mask,
            loss_agg_mode=mode,
            config=config,
            **{name: batch[name] for name in (_WEIGHTS,) if name in batch},
        )[0]
        if not config.use_kl_loss:
            return loss
        kl = self._kl_penalty(case.logps, batch["ref_log_prob"], config.kl_loss_type)
        return loss + self._aggregate(kl, mask, mode) * config.kl_loss_coef


class Verl(Target):
    """verl's losses, by what its configuration calls `policy_loss.loss_mode` and `loss_agg_mode`.

    Completions are rows of one length whose masks have holes, as those of several turns are. For `cispo`, the
    spec's `epsilon_high` is absolute, of which verl's `clip_ratio_high` is the part above 1.
    """

    def __init__(self, algorithms: ModuleType, configs: ModuleType, step: Any, stand_ins: Sequence[str]) -> None:
        self.versions: Mapping[str, str] = versions_of("verl", *_COMPANIONS)
        self.label = f"verl {self.versions['verl']}"
        self._actor, self._policy = taken_from("verl", configs, "ActorConfig", "PolicyLossConfig")
        self._defaults = {field.name: field.default for field in fields(self._actor)}
        self._step = step
        (registered,) = taken_from("verl", algorithms, "POLICY_LOSS_REGISTRY")
        lacking = [name for name in _SETTINGS if name not in self._defaults]
        lacking += [] if "vanilla" in registered else ["policy loss named vanilla"]
        if lacking:
            raise Unavailable("broken", f"{self.label} has another interface: it has no {', '.join(lacking)}")
        self.source = source_of(registered["vanilla"])
        weighs = _WEIGHTS in inspect.signature(registered["vanilla"]).parameters
        some = {"importance_ratio": weighs, "split": isinstance(step, Engine)}
        self.supports = Support(
            loss_types=_CLIPPED + tuple(name for name, mode in _OTHERS.items() if mode in registered),
            levels=tuple(level for level, mode in _LEVELS.items() if mode in registered),
            options=(*_OPTIONS, *(option for option, has in some.items() if has)),
        )
        counts_empty = self._probe("luspo", "token", [[1], [0]]) == 0.5
        self._gspo_heeds_mode = (
            "sequence" in self.supports.levels and self._probe("luspo", "sequence", [[1, 1]]) == 2
        )
        self.conventions = {
            "empty_rows": "counted" if counts_empty else "not_counted",
            "padding": ["finite"],
            "log_ratio_bounds": [-20.0, 20.0],
            "dual_clip": self._defaults["clip_ratio_c"],
            "sequence_gradient": "token",
            "cispo_clip": "two_sided",
            "kl_log_ratio_bound": 20.0,
            "kl_bound": 10.0,
            "kl_bounded": "exponential",
        }
        gspo = {"log_ratio_bounds": [None, 10.0], "dual_clip": None}
        self.conventions_by_loss = {
            # Its mean is over rows by itself, whatever agg_loss does with those that are empty.
            "gmpo": {"log_ratio_bounds": [None, None], "empty_rows": "counted"},
            **{f"{name}/sequence": gspo for name in (_CLIPPED if self._gspo_heeds_mode else ("grpo",))},
        }
        self.replaced = (*step.replaced, *(f"{name} is a stand-in: only imports need it" for name in stand_ins))

    def refusal(self, case: TensorCase) -> str | None:
        return super().refusal(case) or self._lacks(case)

    def _lacks(self, case: TensorCase) -> str | None:
        spec, loss_type = case.spec, case.spec.loss_type
        if spec.importance_sampling_level == "sequence" and loss_type in _OTHERS:
            return f"verl's {_OTHERS[loss_type]} loss has no sequence level"
        if spec.importance_sampling_level == "sequence" and loss_type != "grpo" and not self._gspo_heeds_mode:
            return "the gspo loss of this verl takes the mean of token means, whatever its loss_agg_mode"
        if loss_type == "gmpo" and case.importance_ratio is not None:
            return "verl's geo_mean loss weighs a completion by the geometric mean of its importance ratios"
        if loss_type == "cispo" and spec.epsilon_high < 1:
            return "verl's cispo loss caps the ratio at 1 + clip_ratio_high, which is at least 1"
        takes_length = "loss_scale_factor" in self._defaults
        if loss_type == "dr_grpo" and not takes_length and spec.max_completion_length != case.mask.shape[1]:
            return "this verl divides by the width of the batch, whatever the longest completion may be"
        if case.split.mode == "eval":
            return "verl takes no loss in evaluation"
        if case.split != Split() and loss_type == "bnpo":
            return "verl takes one token mean over a whole step, not one for each micro-batch"
        return None

    def loss(self, case: TensorCase) -> Tensor:
        config = self._config(case.spec)
        totals = _totals(case)
        return step_loss(case, lambda part: self._step.loss(config, part, totals))

    def _config(self, spec: Spec) -> Any:
        """A real configuration of the actor; of the fields here, a release lacks those of losses it lacks."""
        loss_type = spec.loss_type
        settings = {
            "strategy": "fsdp",
            "rollout_n": 1,
            "ppo_micro_batch_size_per_gpu": 1,
            "clip_ratio_low": spec.epsilon_low,
            "clip_ratio_high": spec.epsilon_high - 1 if loss_type == "cispo" else spec.epsilon_high,
            "policy_loss": self._policy(loss_mode=_OTHERS.get(loss_type, _LEVELS[spec.importance_sampling_level])),
            "loss_agg_mode": _AGGREGATIONS[loss_type],
            "loss_scale_factor": spec.max_completion_length if loss_type == "dr_grpo" else None,
            "tau_pos": spec.sapo_temperature_pos,
            "tau_neg": spec.sapo_temperature_neg,
            "use_kl_loss": spec.beta != 0,
            "kl_loss_coef": spec.beta,
            "kl_loss_type": _KL.get(spec.kl_estimator, _KL["k3"]),
        }
        return self._actor(**{name: value for name, value in settings.items() if name in self._defaults})

    def _probe(self, loss_type: str, level: str, mask: list[list[int]]) -> float:
        """The size of the loss of an on-policy batch whose every token loss is 1 in size."""
        size: float = abs(self.loss(probe(loss_type, level, mask)).item())
        return size


def _totals(case: TensorCase) -> dict[str, int]:
    """What a micro-batch is told of its step: the ranks, and unmasked tokens and rows on all of them."""
    ranks = step_masks(case)
    masks = [mask for rank in ranks for mask in rank]
    return {
        "dp_size": len(ranks),
        "batch_num_tokens": sum(int(mask.sum()) for mask in masks),
        "global_batch_size": sum(len(mask) for mask in masks),
    }


def _batch(case: TensorCase) -> dict[str, Tensor]:
    """The tensors of a micro-batch, each (B, T), by verl's names."""
    rows, columns = case.mask.shape
    batch = {
        "response_mask": case.mask.long(),
        "old_log_probs": case.logps.detach() if case.old_logps is None else case.old_logps,
        "advantages": case.advantages.reshape(rows, -1).expand(rows, columns),
    }
    if case.spec.beta != 0 and case.ref_logps is not None:
        batch["ref_log_prob"] = case.ref_logps
    if case.importance_ratio is not None:
        batch[_WEIGHTS] = case.importance_ratio.expand(rows, columns)
    return batch


def open_target(name: str, _options: Mapping[str, str]) -> Target:
    """The verl that is installed here."""
    stand_ins = stand_in(*_STAND_INS)
    try:
        import_from(name, name, "verl.utils.model")
    except Unavailable as failure:
        # Old releases take names from transformers that it no longer has, to build models with.
        if getattr(failure.__cause__, "name", None) != "transformers":
            raise
        stand_in_for("verl.utils.model")
        stand_ins += ("verl.utils.model",)
    algorithms, configs = import_from(name, "verl.trainer.ppo.core_algos", "verl.workers.config")
    (aggregate,) = taken_from(name, algorithms, "agg_loss")
    if "global_batch_size" not in inspect.signature(aggregate).parameters:
        return Verl(algorithms, configs, ActorWorker(algorithms), stand_ins)
    return Verl(algorithms, configs, Engine(*import_from(name, "verl.workers.utils.losses")), stand_ins)
