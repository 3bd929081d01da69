"""A case, its expected and its actual gradient, token by token in plain text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cases.case import Case
from harness.outcome import Outcome
from oracles.expectation import Expectation

MOST_TOKENS = 64


def token_table(case: Case, expectation: Expectation, outcome: Outcome) -> Iterator[str]:
    """The hyper-parameters, then one line a token; of a large case the first `MOST_TOKENS` only."""
    yield ""
    yield f"  {_settings(case)}"
    batch = case.batch
    optional = {
        "old": batch.old_logps,
        "ref": batch.ref_logps if case.spec.beta else None,
        "sampling": batch.sampling_logps,
        "importance": batch.token_importance_ratio,
    }
    columns = {
        "logp": batch.logps,
        **{name: values for name, values in optional.items() if values is not None},
        "advantage": batch.token_advantages,
        "expected": expectation.gradients[0].high,
    }
    if outcome.gradient is not None:
        columns["got"] = outcome.gradient
    columns["bound"] = expectation.gradients[0].bound
    yield "  completion  token" + "".join(f"{name:>14}" for name in columns)
    shown = np.argwhere(batch.mask)[:MOST_TOKENS]
    for row, column in shown:
        numbers = "".join(f"{_number(name, values[row, column]):>14}" for name, values in columns.items())
        yield f"  {row:>10}  {column:>5}{numbers}"
    if len(shown) < batch.tokens:
        yield f"  and {batch.tokens - len(shown)} more tokens"
    if not batch.tokens:
        yield "  no token is unmasked"


def _settings(case: Case) -> str:
    spec, split, batch = case.spec, case.split, case.batch
    parts = [f"B {batch.rows}, T {batch.columns}"]
    if spec.loss_type.clips:
        parts.append(f"epsilon {spec.epsilon_low:g}, {spec.epsilon_high:g}")
    else:
        parts.append(f"epsilon_high {spec.epsilon_high:g}")
    optional = {
        "delta": spec.delta,
        "off_policy_mask_threshold": spec.off_policy_mask_threshold,
        "max_completion_length": spec.max_completion_length if spec.loss_type == "dr_grpo" else None,
    }
    parts += [f"{name} {value:g}" for name, value in optional.items() if value is not None]
    if spec.beta:
        parts.append(f"kl {spec.kl_estimator}")
    if batch.old_logps is None:
        parts.append("on-policy")
    if not split.is_whole:
        parts.append(
            f"{split.mode}: ranks {split.ranks}, accumulation_steps {split.accumulation_steps}, "
            f"steps_per_generation {split.steps_per_generation}"
        )
    return "; ".join(parts)


def _number(name: str, value: float) -> str:
    return f"{value:.2g}" if name == "bound" else f"{value:.7g}"
