"""verl: its `ppo_loss`, or in older releases its policy losses and KL term as its actor adds them up."""

from __future__ import annotations

from typing import Final

from cases.case import Case
from cases.spec import KLEstimator, LossType
from harness.reproducer.finding import Finding
from harness.reproducer.kind import Kind, arguments, number, of_library, text

_TOKEN_MEANS: Final = "seq-mean-token-mean"
_AGGREGATIONS: Final = {
    LossType.GRPO: _TOKEN_MEANS,
    LossType.BNPO: "token-mean",
    LossType.DAPO: "token-mean",
    LossType.DR_GRPO: "seq-mean-token-sum-norm",
    LossType.LUSPO: "seq-mean-token-sum",
    LossType.CISPO: "token-mean",
    LossType.SAPO: _TOKEN_MEANS,
    LossType.GMPO: _TOKEN_MEANS,
}
_LEVELS: Final = {"token": "vanilla", "sequence": "gspo"}
_MODES: Final = {LossType.CISPO: "cispo", LossType.SAPO: "sapo", LossType.GMPO: "geo_mean"}
_KL: Final = {KLEstimator.K3: "low_var_kl", KLEstimator.K1: "kl", KLEstimator.K2: "mse"}


def kind(finding: Finding) -> Kind:
    """The kind of a verl that is installed, or of a release."""
    case = finding.case
    mode = _MODES.get(case.spec.loss_type, _LEVELS[case.spec.importance_sampling_level])
    has_step = any(line.startswith("ppo_loss is given") for line in finding.facts.replaced)
    configs = "from verl.workers.config import ActorConfig, PolicyLossConfig"
    if has_step:
        third_party = [
            "from tensordict import TensorDict",
            "from verl.utils.tensordict_utils import assign_non_tensor",
            configs,
            "from verl.workers.utils.losses import ppo_loss",
        ]
    else:
        functions = "agg_loss, get_policy_loss_fn, kl_penalty" if case.spec.beta else "get_policy_loss_fn"
        third_party = [f"from verl.trainer.ppo.core_algos import {functions}", configs]
    return of_library(
        finding,
        "verl",
        "verl",
        template="verl.py.j2",
        third_party=tuple(third_party),
        values={
            "config": _config(case, mode),
            "mode": mode,
            "kl": _KL[case.spec.kl_estimator if case.spec.beta else KLEstimator.K3],
            "aggregation": _AGGREGATIONS[case.spec.loss_type],
            "has_step": has_step,
            "totals": _totals(case),
            "rows_of_one": case.batch.rows // case.split.micro_batches,
            "per_token": [
                name
                for name, values in (
                    ("advantages", case.batch.advantages),
                    ("importance_ratio", case.batch.importance_ratio),
                )
                if values is not None and values.shape == case.batch.mask.shape
            ],
        },
    )


def _config(case: Case, mode: str) -> list[str]:
    """The configuration of the actor: what the loss of the case reads of it."""
    spec = case.spec
    # verl's cap is 1 plus it.
    high = spec.epsilon_high - 1 if spec.loss_type is LossType.CISPO else spec.epsilon_high
    clips = spec.loss_type is not LossType.SAPO
    # By default the divisor is the width of the batch.
    by_width = spec.loss_type is not LossType.DR_GRPO or spec.max_completion_length == case.batch.columns
    kl = spec.kl_estimator if spec.beta else None
    return arguments(
        strategy=text("fsdp"),
        rollout_n="1",
        ppo_micro_batch_size_per_gpu="1",
        policy_loss=f"PolicyLossConfig(loss_mode={text(mode)})",
        loss_agg_mode=text(_AGGREGATIONS[spec.loss_type]),
        loss_scale_factor=None if by_width else str(spec.max_completion_length),
        clip_ratio_low=number(spec.epsilon_low) if clips else None,
        clip_ratio_high=number(high) if clips else None,
        tau_pos=None if clips else number(spec.sapo_temperature_pos),
        tau_neg=None if clips else number(spec.sapo_temperature_neg),
        use_kl_loss="True" if kl else "False",
        kl_loss_coef=number(spec.beta) if kl else None,
        kl_loss_type=text(_KL[kl]) if kl else None,
    )


def _totals(case: Case) -> list[str]:
    """What a micro-batch is told of its step: the ranks, and the tokens and completions on all of them."""
    ranks = case.split.judged(case.batch.rows)
    rows = [row for rank in ranks for part in rank for row in part]
    return arguments(
        dp_size=str(len(ranks)),
        batch_num_tokens=str(int(case.batch.lengths[rows].sum())),
        global_batch_size=str(len(rows)),
    )
