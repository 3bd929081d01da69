"""A case, token by token: what each brings to the loss, and its expected and its actual gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from cases.case import Case
from cases.dtypes import FloatArray
from cases.large import is_large
from cases.spec import LossType
from harness.outcome import Outcome
from oracles.expectation import Exact, Expectation
from oracles.space.breakdown import TokenTerms, breakdown
from reports.token_table import TokenTable

MOST_TOKENS = 64

_OWN = {
    LossType.SAPO: ("sapo_temperature_pos", "sapo_temperature_neg"),
    LossType.VESPO: ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
}
"""Hyper-parameters of losses that have their own in the place of clip bounds."""


def tabled(case: Case, expectation: Expectation, outcome: Outcome | None = None) -> TokenTable:
    """One row a token of the judged step: the first `MOST_TOKENS`.

    Of a large batch, the tokens with the largest error / bound, without what each brings to the loss.
    """
    if is_large(case.batch):
        return _worst(case, expectation, outcome)
    tokens = breakdown(case)
    leaks = _leaks(case, outcome)
    if not tokens:
        advantages = ", ".join(_number(value) for value in case.batch.advantages.flat)
        notes = (f"no token is unmasked; advantages {advantages}", *leaks)
        return TokenTable(_settings(case), {}, notes=notes)
    columns = _columns(case, tokens[:MOST_TOKENS], expectation, outcome)
    texts = MappingProxyType({name: tuple(column) for name, column in columns.items()})
    return TokenTable(_settings(case), texts, max(len(tokens) - MOST_TOKENS, 0), tuple(leaks))


def _worst(case: Case, expectation: Expectation, outcome: Outcome | None) -> TokenTable:
    """Where the gradient of a large batch is furthest off; its first tokens, where there is none to compare."""
    places = np.argwhere(case.batch.mask)
    notes = ["a large batch: what each token brings to the loss is left out"]
    if outcome is not None and outcome.gradient is not None and len(places):
        at = tuple(places.T)
        ratio = np.min([_off(outcome.gradient[at], exact, at) for exact in expectation.gradients], axis=0)
        places = places[np.argsort(-ratio, kind="stable")]
        notes = [f"{notes[0]}; those whose gradient is furthest off come first"]
    shown = [(int(row), int(column)) for row, column in places[:MOST_TOKENS]]
    columns = {**_inputs(case, shown), **_gradients(shown, expectation, outcome)} if shown else {}
    texts = MappingProxyType({name: tuple(column) for name, column in columns.items()})
    return TokenTable(_settings(case), texts, len(places) - len(shown), (*notes, *_leaks(case, outcome)))


def _off(got: FloatArray, exact: Exact, at: tuple[Any, ...]) -> FloatArray:
    """Error / bound at some places; infinite where the gradient is no number."""
    error = np.abs(got - exact.high[at])
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: FloatArray = np.where(error == 0.0, 0.0, np.nan_to_num(error / exact.bound[at], nan=np.inf))
    return ratio


def token_table(case: Case, expectation: Expectation, outcome: Outcome | None = None) -> Iterator[str]:
    """The hyper-parameters, then one line a token, as plain text."""
    return tabled(case, expectation, outcome).lines


def _leaks(case: Case, outcome: Outcome | None) -> Iterator[str]:
    """Masked positions that have a gradient."""
    if outcome is None or outcome.gradient is None:
        return
    leaking = np.argwhere(~case.batch.mask & (outcome.gradient != 0.0))
    for row, column in leaking[:MOST_TOKENS]:
        yield f"masked: row {row}, token {column}: expected 0, got {_number(outcome.gradient[row, column])}"


def _columns(
    case: Case, tokens: list[TokenTerms], expectation: Expectation, outcome: Outcome | None
) -> dict[str, list[str]]:
    columns = _inputs(case, [(one.row, one.column) for one in tokens])
    columns["ratio"] = [_number(one.ratio) for one in tokens]
    columns["branch"] = [one.branch for one in tokens]
    columns["policy"] = [_number(one.policy) for one in tokens]
    if any(one.kl is not None for one in tokens):
        columns["kl"] = ["-" if one.kl is None else _number(one.kl) for one in tokens]
    columns["weight"] = [_number(one.weight) for one in tokens]
    columns |= _gradients([(one.row, one.column) for one in tokens], expectation, outcome)
    if len(set(columns["branch"])) == 1 and columns["branch"][0] == "-":
        del columns["branch"]
    return columns


def _inputs(case: Case, at: Sequence[tuple[int, int]]) -> dict[str, list[str]]:
    batch = case.batch
    inputs = {
        "logp": batch.logps,
        "old": batch.old_logps,
        "ref": batch.ref_logps if case.spec.beta else None,
        "sampling": batch.sampling_logps,
        "importance": batch.token_importance_ratio,
        "advantage": batch.token_advantages,
    }
    columns = {"row": [str(row) for row, _ in at], "token": [str(column) for _, column in at]}
    columns |= {
        name: [_number(values[place]) for place in at] for name, values in inputs.items() if values is not None
    }
    return columns


def _gradients(
    at: Sequence[tuple[int, int]], expectation: Expectation, outcome: Outcome | None
) -> dict[str, list[str]]:
    columns = {}
    exact = expectation.gradients[0]
    columns["expected"] = [_number(exact.high[place]) for place in at]
    if outcome is not None and outcome.gradient is not None:
        columns["got"] = [_number(outcome.gradient[place]) for place in at]
    columns["bound"] = [f"{exact.bound[place]:.2g}" for place in at]
    return columns


def _settings(case: Case) -> str:
    spec, split, batch = case.spec, case.split, case.batch
    parts = [f"B {batch.rows}, T {batch.columns}"]
    if spec.loss_type.clips:
        parts.append(f"epsilon {spec.epsilon_low:g}, {spec.epsilon_high:g}")
    elif spec.loss_type in _OWN:
        parts.append(", ".join(f"{name} {getattr(spec, name):g}" for name in _OWN[spec.loss_type]))
    else:
        parts.append(f"epsilon_high {spec.epsilon_high:g}")
    optional = {
        "delta": spec.delta,
        "off_policy_mask_threshold": spec.off_policy_mask_threshold,
        "max_completion_length": spec.max_completion_length if spec.loss_type == "dr_grpo" else None,
        "dual_clip": spec.conventions.dual_clip if spec.loss_type.clips else None,
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


def _number(value: float) -> str:
    return f"{float(value):.7g}"
