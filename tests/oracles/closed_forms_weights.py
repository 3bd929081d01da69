"""What a token weighs in the loss of a step, in rational arithmetic: aggregation, split and conventions.

Nothing here comes from `oracles`.
"""

from __future__ import annotations

from fractions import Fraction

from cases.case import Case
from cases.conventions import EmptyRows, KLAggregation, WindowTokens
from cases.spec import LossType
from cases.split import Mode


def micro_batches(case: Case) -> list[list[int]]:
    """Rows of the micro-batches of the judged step."""
    split, rows = case.split, case.batch.rows
    per_rank = rows // split.ranks
    pieces, judged = split.steps_per_generation, split.accumulation_steps
    if split.mode is Mode.EVAL:
        pieces = judged = 1
    size = per_rank // pieces
    return [
        [rank * per_rank + piece * size + number for number in range(size)]
        for rank in range(split.ranks)
        for piece in range(judged)
    ]


def token_weights(case: Case) -> dict[int, Fraction]:
    """What a token's policy term weighs, for every row of the judged step that has tokens."""
    spec, split = case.spec, case.split
    lengths = [int(length) for length in case.batch.lengths]
    pieces = micro_batches(case)
    step = [row for piece in pieces for row in piece]
    filled = [row for row in step if lengths[row]]
    rows = len(step) if spec.conventions.empty_rows is EmptyRows.COUNTED else len(filled)
    tokens = Fraction(sum(lengths[row] for row in step))
    epsilon = Fraction(spec.conventions.denominator_epsilon)
    if spec.conventions.window_tokens is WindowTokens.GENERATION_AVERAGE and split.mode is Mode.TRAIN:
        tokens = Fraction(sum(lengths) * split.accumulation_steps, split.steps_per_generation)
    match spec.loss_type:
        case LossType.GRPO | LossType.SAPO | LossType.GMPO:
            return {row: 1 / (rows * (lengths[row] + epsilon)) for row in filled}
        case LossType.LUSPO:
            return {row: Fraction(1, rows) for row in filled}
        case LossType.DR_GRPO:
            return {row: Fraction(1, rows * spec.max_completion_length) for row in filled}
        case LossType.BNPO:
            return {
                row: 1 / (len(pieces) * (sum(lengths[other] for other in piece) + epsilon))
                for piece in pieces
                for row in piece
                if lengths[row]
            }
        case LossType.DAPO | LossType.CISPO | LossType.VESPO:
            return dict.fromkeys(filled, 1 / (tokens + epsilon)) if filled else {}


def kl_weights(case: Case) -> dict[int, Fraction]:
    """What a token's KL term weighs, for every row of the judged step that has tokens."""
    conventions = case.spec.conventions
    if conventions.kl_aggregation is KLAggregation.WITH_POLICY:
        return token_weights(case)
    lengths = {row: int(case.batch.lengths[row]) for piece in micro_batches(case) for row in piece}
    tokens = sum(lengths.values()) + Fraction(conventions.denominator_epsilon)
    return {row: 1 / tokens for row, length in lengths.items() if length}


def drops(case: Case, row: int) -> bool:
    """Whether a completion has drifted off-policy, decided in rational arithmetic."""
    batch, threshold = case.batch, case.spec.off_policy_mask_threshold
    source = batch.old_logps if batch.sampling_logps is None else batch.sampling_logps
    if threshold is None:
        return False
    drift = Fraction(0)
    columns = [column for column in range(batch.columns) if batch.mask[row, column]]
    for column in columns:
        if source is not None:
            drift += Fraction(float(source[row, column])) - Fraction(float(batch.logps[row, column]))
    return drift / len(columns) > Fraction(threshold)
