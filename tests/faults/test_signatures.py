"""What is said to be wrong with a seeded fault is what is wrong with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from harness.asking import Contestant
from harness.engine import as_facts
from harness.explaining import explained
from harness.faults.worker import FaultWorker
from harness.generation import schedule
from harness.judging import judged_entries
from harness.plan import Plan
from harness.posing import Questions
from harness.tally import Tally

ENTRIES = schedule(16, 0)

SAID = {
    "grpo_as_bnpo": ("grpo", "computes bnpo"),
    "dr_without_rows": ("dr_grpo", "sum over tokens divided by max_completion_length, without B"),
    "skip_empty_rows": ("grpo", "completions without tokens not counted in each micro-batch"),
    "kl_sign": ("grpo", "KL term with the wrong sign"),
    "kl_detached": ("dapo", "KL term without a gradient"),
    "beta_1pct": ("grpo", "KL term x 1.01"),
    "kl_zero_lt_1e-4": ("grpo", "KL term missing; only: reference within 0.01 of current: k3 cancels"),
    "no_clip": ("grpo", "surrogate without a clip"),
    "eps_hi_ignored": ("grpo", "clipped surrogate with epsilon_low on both sides"),
    "delta_ignored": ("grpo", "delta ignored"),
    "ratio_detached": ("grpo", "policy term without a gradient"),
    "old_is_self": ("grpo", "a ratio of 1, old_logps ignored"),
    "importance_on_kl": ("grpo", "importance ratio on the policy term and the KL term"),
    "off_mask_sign": ("grpo", "off-policy mask takes the drift with the wrong sign"),
    "share_no_div": ("grpo", "loss and gradient x accumulation_steps; only: several accumulation steps"),
    "adv_sign": ("grpo", "advantages with the wrong sign"),
    "adv_bf16": ("grpo", "advantages rounded to bfloat16"),
    "scale_1e-3": ("grpo", "loss and gradient x 1.001"),
    "dr_maxlen": ("dr_grpo", "gradient x max_completion_length/longest completion"),
    "k3_clamp10": ("grpo", "KL estimate clamped to 10"),
    "eps_0.2001": ("grpo", "epsilon_low and epsilon_high larger by 0.0001"),
    "delta_negative_only": ("grpo", "delta acts for negative advantages alone"),
    "sapo_at_ratio": ("sapo", "sapo's gate at the ratio, not at ratio - 1"),
    "vespo_mean": ("vespo", "vespo's log W is the mean over the tokens, not their sum"),
    "off_mask_edits_mask": ("grpo", "what the off-policy mask drops is masked, and counts nowhere"),
    "bf16_accum": ("grpo", "something is computed in half precision"),
}


@pytest.fixture(scope="module")
def worker() -> Iterator[FaultWorker]:
    """One process that all faults are opened in."""
    with FaultWorker(sys.executable) as one:
        yield one


@pytest.mark.parametrize("fault", SAID)
def test_a_fault_is_named(worker: FaultWorker, fault: str) -> None:
    """The signature of a failing cell, read off its failing cases, in the words that name the fault."""
    loss_type, words = SAID[fault]
    plan = Plan.of([f"fault:{fault}"], loss_types=loss_type, levels="token", dtypes="float32", betas="0.04")
    worker.open(fault)
    one = Contestant(worker, worker.facts, "cpu")
    tally = Tally({one.facts.label: as_facts(one.facts)})
    for judged in judged_entries(Questions(plan), ENTRIES, [one]):
        tally.add(judged)
    assert [found.signature for found in explained(tally.suspects, [one])] == [words]
