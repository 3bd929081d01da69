"""What a callable or an operator can be given, and under which names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

from torch import Tensor

from ..target import TensorCase


@dataclass(frozen=True)
class Argument:
    """Something that is offered: its name, other names that libraries give it, its kind and what it is.

    `kind` is "tensor", "number", "integer", "count" (a tensor of one integer), "flag" or "text".
    """

    name: str
    kind: str
    aliases: tuple[str, ...]
    about: str


OFFERED = (
    Argument(
        "logps",
        "tensor",
        (
            *("per_token_logps", "token_logps", "policy_logps", "new_logps", "current_logps", "logp", "new_logp"),
            *("log_probs", "log_prob", "logprobs", "logprob", "new_log_probs", "new_log_prob", "new_logprobs"),
            *("policy_log_probs", "policy_logprobs", "curr_log_probs", "curr_logprobs", "new"),
        ),
        "`(B, T)`, requires grad: per-token log-probabilities under the current policy",
    ),
    Argument(
        "old_logps",
        "tensor",
        (
            *("old_per_token_logps", "old_token_logps", "old_policy_logps", "old_logp", "old_log_probs"),
            *("old_log_prob", "old_logprobs", "old_logprob", "prev_logprobs", "old"),
        ),
        "`(B, T)`, or None on-policy",
    ),
    Argument(
        "ref_logps",
        "tensor",
        (
            *("ref_per_token_logps", "ref_token_logps", "reference_logps", "ref_logp", "ref_log_probs"),
            *("ref_log_prob", "ref_logprobs", "ref_logprob", "reference_log_probs", "reference_logprobs", "ref"),
        ),
        "`(B, T)`, or None; always there where beta is not 0",
    ),
    Argument("advantages", "tensor", ("advantage", "adv", "advs"), "`(B,)` or `(B, T)`, as the case has them"),
    Argument("token_advantages", "tensor", (), "instead of `advantages`: always `(B, T)`"),
    Argument(
        "completion_advantages",
        "tensor",
        ("sequence_advantages",),
        "instead of `advantages`: always `(B,)`; cases with advantages per token are unsupported",
    ),
    Argument(
        "mask",
        "tensor",
        ("completion_mask", "response_mask", "loss_mask", "action_mask", "token_mask", "attention_mask"),
        "bool `(B, T)`: the tokens that count; the rest holds finite numbers that must not matter",
    ),
    Argument(
        "full_mask", "tensor", ("full_attention_mask",), "the mask of the whole step: here that of the batch"
    ),
    Argument(
        "sampling_logps",
        "tensor",
        (
            *("sampling_per_token_logps", "sampling_log_probs", "sampling_logprobs", "rollout_logps"),
            *("rollout_log_probs", "rollout_log_prob", "rollout_logprobs", "generation_logprobs"),
            "inference_logprobs",
        ),
        "`(B, T)`, or None: under the engine that sampled",
    ),
    Argument(
        "importance_ratio",
        "tensor",
        (
            *("importance_sampling_ratio", "vllm_is_ratio", "rollout_is_weights", "rollout_is_ratio"),
            *("is_ratio", "is_weights"),
        ),
        "`(B, T)` or `(B, 1)`, or None: constant factors of the policy term",
    ),
    Argument(
        "num_items_in_batch",
        "count",
        ("batch_num_tokens", "global_num_tokens", "num_tokens", "total_tokens"),
        "unmasked tokens of the step, a tensor of one integer; 0 where all is masked",
    ),
    Argument("batch_size", "integer", ("global_batch_size", "num_completions", "num_sequences"), "B"),
    Argument("loss_type", "text", (), 'such as `"grpo"`'),
    Argument("importance_sampling_level", "text", (), '`"token"` or `"sequence"`'),
    Argument("beta", "number", ("kl_beta", "kl_coef", "kl_coeff", "kl_loss_coef", "beta_kl"), "of the KL term"),
    Argument(
        "epsilon_low",
        "number",
        (
            "eps_low",
            "eps_clip_low",
            "clip_low",
            "clip_eps_low",
            "clip_ratio_low",
            "clip_range_low",
            "cliprange_low",
        ),
        "the ratio is clipped below at 1 - epsilon_low; for `gmpo`, the log-ratio at -epsilon_low",
    ),
    Argument(
        "epsilon_high",
        "number",
        (
            *("eps_high", "eps_clip_high", "clip_high", "clip_eps_high", "clip_ratio_high", "clip_range_high"),
            "cliprange_high",
        ),
        "the ratio is clipped above at 1 + epsilon_high; for `cispo`, it is the cap; for `gmpo`, of the log-ratio",
    ),
    Argument(
        "epsilon",
        "number",
        ("clip_epsilon", "clip_eps", "clip_ratio", "clip_range", "cliprange", "eps_clip"),
        "both in one, where they are equal; `epsilon_low` where the callable takes `epsilon_high` too",
    ),
    Argument("delta", "number", (), "the second upper bound of the ratio, or None"),
    Argument("off_policy_mask_threshold", "number", (), "of the off-policy sequence mask, or None"),
    Argument("kl_estimator", "text", (), '`"k3"`, `"k3_bias_corrected"`, `"k1"` or `"k2"`'),
    Argument("use_bias_correction_kl", "flag", (), "whether it is `k3_bias_corrected`, not `k3`"),
    Argument(
        "max_completion_length",
        "integer",
        ("max_completion_len", "max_response_length", "max_new_tokens", "max_tokens"),
        "the constant that `dr_grpo` divides by",
    ),
    Argument("sapo_temperature_pos", "number", ("temperature_pos", "tau_pos"), "of `sapo`, advantages above 0"),
    Argument("sapo_temperature_neg", "number", ("temperature_neg", "tau_neg"), "of `sapo`, other advantages"),
    Argument("vespo_k_pos", "number", ("k_pos",), "of `vespo`, advantages of at least 0"),
    Argument("vespo_lambda_pos", "number", ("lambda_pos",), "of `vespo`, advantages of at least 0"),
    Argument("vespo_k_neg", "number", ("k_neg",), "of `vespo`, advantages below 0"),
    Argument("vespo_lambda_neg", "number", ("lambda_neg",), "of `vespo`, advantages below 0"),
)

BY_NAME = {name: argument for argument in OFFERED for name in (argument.name, *argument.aliases)}


def value_of(name: str, case: TensorCase) -> Any:
    """What is offered under a name of `OFFERED`, for a case."""
    if name in _DERIVED:
        return _DERIVED[name](case)
    return getattr(case if name in _TENSORS else case.spec, name)


def _per_token(case: TensorCase) -> Tensor:
    if case.advantages.dim() == 2:
        return case.advantages
    # A copy with strides of its own: a kernel may read it by address.
    return case.advantages.unsqueeze(1).repeat(1, case.mask.shape[1])


_TENSORS = ("logps", "old_logps", "ref_logps", "advantages", "mask", "sampling_logps", "importance_ratio")
_DERIVED: Mapping[str, Callable[[TensorCase], Any]] = {
    "token_advantages": _per_token,
    "completion_advantages": lambda case: case.advantages,
    "full_mask": lambda case: case.mask,
    "num_items_in_batch": lambda case: case.mask.sum(),
    "batch_size": lambda case: case.mask.shape[0],
    "epsilon": lambda case: case.spec.epsilon_low,
    "use_bias_correction_kl": lambda case: case.spec.kl_estimator == "k3_bias_corrected",
}
