"""OpenRLHF: `PolicyLoss` and `compute_approx_kl`, added up as its actor does."""

from __future__ import annotations

from cases.case import Case
from harness.reproducer.finding import Finding
from harness.reproducer.kind import Kind, arguments, number, of_library, text


def kind(finding: Finding) -> Kind:
    """The kind of an OpenRLHF that is installed, or of a release."""
    case = finding.case
    spec = case.spec
    # Releases whose micro-batches are told of their step have another mean for the KL term.
    knows_step = any(line.startswith("the masks of all ranks") for line in finding.facts.replaced)
    by_sequence = spec.importance_sampling_level == "sequence"
    third_party = ["from openrlhf.models.loss import PolicyLoss"]
    if spec.beta:
        mean = "aggregate_loss" if knows_step else "masked_mean"
        third_party = [
            f"from openrlhf.models.loss import PolicyLoss{', aggregate_loss' if knows_step else ''}",
            f"from openrlhf.models.utils import compute_approx_kl{'' if knows_step else ', masked_mean'}",
        ]
    else:
        mean = ""
    return of_library(
        finding,
        "openrlhf",
        "openrlhf",
        template="openrlhf.py.j2",
        third_party=tuple(third_party),
        values={
            "policy_loss": arguments(
                clip_eps_low=number(spec.epsilon_low),
                clip_eps_high=number(spec.epsilon_high),
                dual_clip=number(spec.delta),
                token_level_loss=str(spec.loss_type != "grpo"),
                policy_loss_type=text("gspo" if by_sequence else "ppo"),
            ),
            "estimator": str(spec.kl_estimator),
            "mean": mean,
            "totals": _totals(case) if knows_step else "",
            "advantages_per_token": case.batch.advantages.ndim == 2,
        },
    )


def _totals(case: Case) -> str:
    """What each micro-batch is told of its step: tokens and non-empty completions, on all ranks, a micro-batch."""
    split, lengths = case.split, case.batch.lengths
    ranks = split.judged(case.batch.rows)
    rows = [row for rank in ranks for part in rank for row in part]
    steps = len(ranks[0])
    tokens, completions = int(lengths[rows].sum()) / steps, int((lengths[rows] > 0).sum()) / steps
    return f'{{"dp_size": {split.ranks}, "batch_num_tokens": {tokens!r}, "global_batch_size": {completions!r}}}'
