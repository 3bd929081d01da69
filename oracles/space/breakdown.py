"""A loss token by token: the ratio, what the clip does with it, policy term, KL term, and the weight of both."""

from __future__ import annotations

from dataclasses import dataclass

from cases.case import Case
from cases.spec import LossSpec, LossType
from oracles.space.names import variant_of
from oracles.space.pieces import Pieces
from oracles.space.variant import KL, Aggregation, Rows


@dataclass(frozen=True)
class TokenTerms:
    """What one unmasked token of the judged step brings to the loss: weight x (policy + beta x kl).

    `branch` says what the bounds of the ratio do; `kl` is None where there is no KL term, or one that is averaged
    by itself.
    """

    row: int
    column: int
    ratio: float
    branch: str
    policy: float
    kl: float | None
    weight: float


def breakdown(case: Case) -> list[TokenTerms]:
    """Every unmasked token of the judged step, in order."""
    pieces, variant = Pieces(case), variant_of(case.spec)
    positions = list(pieces.positions)
    ratios = [float(r.value) for row in pieces.ratio_terms(variant) for r in row]
    policy = [float(term.value) for row in pieces.policy_terms(variant) for term in row]
    apart = variant.kl is KL.NONE or pieces.kl_is_apart(variant)
    kl = [None] * len(policy) if apart else [float(term.value) for row in pieces.kl_terms(variant) for term in row]
    weights = _weights(case, variant.aggregation, variant.rows)
    advantages = case.batch.token_advantages
    return [
        TokenTerms(row, column, r, _branch(case.spec, r, float(advantages[row, column])), p, k, weights[row])
        for (row, column), r, p, k in zip(positions, ratios, policy, kl, strict=True)
    ]


def _branch(spec: LossSpec, ratio: float, advantage: float) -> str:
    low, high = spec.ratio_bounds
    dual = spec.conventions.dual_clip
    if spec.loss_type is LossType.CISPO:
        return "capped" if ratio > high else "raised" if ratio < low else "inside"
    if not spec.loss_type.clips and spec.loss_type is not LossType.GMPO:
        return "-"
    if advantage == 0.0:
        return "A = 0"
    if advantage < 0 and dual is not None and ratio > dual:
        return "dual clip"
    if spec.delta is not None and ratio > spec.delta and (advantage < 0 or spec.delta < high):
        return "delta"
    if ratio > high:
        return "clipped high" if advantage > 0 else "kept above"
    if ratio < low:
        return "clipped low" if advantage < 0 else "kept below"
    return "inside"


def _weights(case: Case, aggregation: Aggregation, rows: Rows) -> dict[int, float]:
    """What a token of each completion of the judged step weighs."""
    batch, split, spec = case.batch, case.split, case.spec
    parts = [list(part) for rank in split.judged(batch.rows) for part in rank]
    step = [row for part in parts for row in part]
    lengths = {row: int(batch.lengths[row]) for row in step}
    filled = [row for row in step if lengths[row]]
    counted = len(step) if rows is Rows.COUNTED else max(len(filled), 1)
    window = float(Pieces(case).window_tokens)
    weights = {}
    for part in parts:
        tokens = sum(lengths[row] for row in part)
        for row in part:
            if not lengths[row]:
                continue
            match aggregation:
                case Aggregation.SEQUENCE_MEAN:
                    weights[row] = 1.0 / (counted * lengths[row])
                case Aggregation.TOKEN_MEAN:
                    weights[row] = 1.0 / (len(parts) * tokens)
                case Aggregation.STEP_TOKEN_MEAN:
                    weights[row] = 1.0 / window
                case Aggregation.CONSTANT:
                    weights[row] = 1.0 / (counted * spec.max_completion_length)
                case _:
                    weights[row] = 1.0 / counted
    return weights
