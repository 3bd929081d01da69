"""What a case's loss divides by: the counts of the literal oracle, from the lengths of completions."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, cast

from cases.conventions import Conventions
from cases.spec import LossSpec, LossType
from cases.split import Split
from oracles.batched.layout import Layout
from oracles.completions import Completion, Formula, MicroBatch, Parameters, Token
from oracles.count import Count
from oracles.tape import Tape


class Counts(NamedTuple):
    """What a loss divides by at the end, and its mean of KL terms by themselves."""

    outer: Count
    kl: Count


def counts_of(layout: Layout) -> list[Counts]:
    """The counts of each case; those of equal lengths are found once."""
    lengths, part_of = layout.runs.lengths.tolist(), layout.part_of.tolist()
    parts = zip(layout.parts.tolist(), layout.rows_per_part, strict=True)
    found, before = [], 0
    for case, span, (number, rows) in zip(layout.cases, layout.spans(), parts, strict=True):
        own = tuple(part - before for part in part_of[span])
        spec = case.spec
        about = spec.loss_type, spec.max_completion_length, spec.conventions
        found.append(_counted(*about, case.split, case.batch.tokens, (own, number, rows), tuple(lengths[span])))
        before += number
    return found


@lru_cache(maxsize=4096)
def _counted(
    loss_type: LossType,
    max_completion_length: int,
    conventions: Conventions,
    split: Split,
    generation_tokens: int,
    parts: tuple[tuple[int, ...], int, int],
    lengths: tuple[int, ...],
) -> Counts:
    """The literal oracle's own counts: its formula over completions of which only the lengths are known."""
    part_of, number, rows_per_part = parts
    found: list[list[Completion]] = [[] for _ in range(number)]
    for part, length in zip(part_of, lengths, strict=True):
        found[part].append(Completion(cast("tuple[Token, ...]", range(length))))
    rest = [(Completion(()),) * (rows_per_part - len(part)) for part in found]
    micro_batches = tuple(MicroBatch((*part, *empty)) for part, empty in zip(found, rest, strict=True))
    spec = LossSpec(loss_type, max_completion_length=max_completion_length, conventions=conventions)
    tape = cast("Tape", None)
    formula = Formula(micro_batches, Parameters(spec, tape), tape, {}, split, generation_tokens)
    match spec.loss_type:
        case LossType.GRPO | LossType.SAPO | LossType.GMPO | LossType.LUSPO:
            outer = formula.rows
        case LossType.BNPO:
            outer = formula.pieces
        case LossType.DR_GRPO:
            outer = formula.rows.times(spec.max_completion_length)
        case LossType.DAPO | LossType.CISPO | LossType.VESPO:
            outer = formula.divisor(formula.window_tokens)
    return Counts(outer, formula.divisor(formula.step_tokens))
