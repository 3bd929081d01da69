"""TRL, and trainer classes made after it: a real trainer around a model of a few numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from cases.spec import KLEstimator
from cases.split import Mode
from harness.reproducer.finding import Finding, NoScript
from harness.reproducer.kind import Kind, arguments, bounds, number, of_library, own_numbers, text
from harness.reproducer.tensors import ones_where_masked

_METHODS: Final = ("_get_per_token_logps_and_entropies", "_get_per_token_logps")
_THIRD_PARTY: Final = (
    "from datasets import Dataset",
    "from tokenizers import Tokenizer",
    "from tokenizers.models import WordLevel",
    "from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM",
)


def kind(finding: Finding) -> Kind:
    """The kind of a TRL that is installed, of a release, or of a trainer class.

    Raises `NoScript` where the loss is no method that can be called.
    """
    replaced = " ".join(finding.facts.replaced)
    method = next((name for name in _METHODS if f".{name} " in replaced), None)
    if method is None:
        raise NoScript(
            f"{finding.facts.label} samples, rewards and takes the loss in one method, "
            "which a script cannot call with given log-probabilities"
        )
    case, with_entropies = finding.case, method == _METHODS[0]
    own, _, name = finding.library.rpartition(":")
    made = of_library(
        finding,
        "trl",
        "trl",
        template="trl.py.j2",
        third_party=(*_THIRD_PARTY, f"from trl import GRPOConfig{'' if own else ', GRPOTrainer'}"),
        own_module=own,
        imports=("import tempfile", "import typing", "import inspect") if own else ("import tempfile",),
        instead=ones_where_masked(case),
        values={
            "trainer_class": f"{own}.{name}" if own else "GRPOTrainer",
            "config": _config(finding, with_entropies),
            "rows_of_one": case.batch.rows // case.split.micro_batches,
            "method": method,
            "with_entropies": with_entropies,
            "reads_reference": not case.spec.beta and "a reference is read all the same" in replaced,
            "is_scaled_outside": "outside the loss" in replaced and case.split.mode is Mode.TRAIN,
        },
    )
    if not own:
        return made
    return replace(made, what=f"{own} and {made.what}", install="", where=f"where {own} can be imported")


def _config(finding: Finding, with_entropies: bool) -> list[str]:
    """What is told to the configuration class: hyper-parameters that this loss reads and this release has."""
    spec, has = finding.case.spec, finding.facts.supports
    low, high = bounds(spec) if "old_logps" in has.options else (None, None)
    corrects = bool(spec.beta) and "k3_bias_corrected" in has.options
    # A release without entropies may read old log-probabilities only where a batch is used again.
    is_reused = not with_entropies and finding.case.batch.old_logps is not None and "old_logps" in has.options
    return arguments(
        loss_type=text(spec.loss_type) if len(has.loss_types) > 1 else None,
        importance_sampling_level=text(spec.importance_sampling_level) if len(has.levels) > 1 else None,
        epsilon=low,
        epsilon_high=high,
        # Older releases have others by default; with one, the trainer would load a reference model.
        beta="0.0",
        delta=number(spec.delta),
        use_bias_correction_kl=str(spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED) if corrects else None,
        off_policy_mask_threshold=number(spec.off_policy_mask_threshold),
        num_iterations="2" if is_reused else None,
        **own_numbers(spec),
    )
