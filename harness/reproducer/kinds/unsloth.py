"""Unsloth: `grpo_compute_loss` of unsloth-zoo."""

from __future__ import annotations

from typing import Final

from cases.spec import KLEstimator
from harness.reproducer.finding import Finding
from harness.reproducer.kind import Kind, arguments, bounds, number, of_library, own_numbers, text

_TENSORS: Final = {"ref": "ref_logps", "new": "logps", "old": "old_logps"}


def kind(finding: Finding) -> Kind:
    """The kind of an unsloth-zoo that is installed, or of a release."""
    spec, split = finding.case.spec, finding.case.split
    low, high = bounds(spec)
    corrected = bool(spec.beta) and spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED
    return of_library(
        finding,
        "unsloth-zoo",
        "unsloth_zoo",
        template="unsloth.py.j2",
        imports=("import importlib.machinery", "import importlib.util", "import os", "import types"),
        third_party=("from unsloth_zoo.rl_replacements import grpo_compute_loss",),
        values={
            "tensors_by_parameter": _TENSORS,
            "options": arguments(
                loss_type=text(spec.loss_type),
                importance_sampling_level=text(spec.importance_sampling_level),
                beta=number(spec.beta),
                epsilon_low=low,
                epsilon_high=high,
                delta=number(spec.delta),
                use_bias_correction_kl="True" if corrected else None,
                num_items_in_batch="mask.sum()",
                current_gradient_accumulation_steps=str(split.accumulation_steps),
                steps_per_generation=str(split.steps_per_generation),
                num_processes=str(split.ranks),
                **own_numbers(spec),
            ),
        },
    )
