"""Liger-Kernel: `ppo_loss_fn`, called for each completion as its fused loss does."""

from __future__ import annotations

from typing import Final

from cases.spec import KLEstimator
from harness.reproducer.finding import Finding
from harness.reproducer.kind import Kind, arguments, bounds, number, of_library, own_numbers, text
from harness.reproducer.tensors import ones_where_masked

_PARAMETERS: Final = {
    "per_token_logps": "logps",
    "attention_mask": "mask",
    "advantages": "advantages",
    "old_per_token_logps": "old_logps",
    "ref_per_token_logps": "ref_logps",
    "vllm_is_ratio": "importance_ratio",
}


def kind(finding: Finding) -> Kind:
    """The kind of a Liger-Kernel that is installed, or of a release."""
    spec = finding.case.spec
    corrected = bool(spec.beta) and spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED
    low, high = bounds(spec)
    return of_library(
        finding,
        "liger-kernel",
        "liger_kernel",
        template="liger.py.j2",
        third_party=("from liger_kernel.chunked_loss.grpo_loss import LigerFusedLinearGRPOFunction",),
        instead=ones_where_masked(finding.case),
        values={
            "parameters": _PARAMETERS,
            "options": arguments(
                loss_type=text(spec.loss_type),
                importance_sampling_level=text(spec.importance_sampling_level),
                beta=number(spec.beta),
                epsilon_low=low,
                epsilon_high=high,
                delta=number(spec.delta),
                use_bias_correction_kl="True" if corrected else None,
                **own_numbers(spec),
            ),
        },
    )
