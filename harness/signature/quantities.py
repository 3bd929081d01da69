"""Numbers of a batch that a wrong factor may be."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cases.case import Case
from cases.split import Mode


def quantities(case: Case) -> Iterator[tuple[str, float]]:
    """Name and value of what a loss may be multiplied by; reciprocals have names of their own.

    The plainest come first: of names with one value, the first is told.
    """
    yield from _CONSTANTS
    named = dict(_named(case))
    for name, value in named.items():
        yield name, value
    for name, value in named.items():
        if value:
            yield _reciprocal(name), 1.0 / value


def _reciprocal(name: str) -> str:
    above, _, below = name.partition("/")
    if not below:
        return f"1/{name}"
    return f"1/({name})" if set(name) & set("( ") or "/" in below else f"{below}/{above}"


_CONSTANTS = ((("-1"), -1.0), ("2", 2.0), ("1/2", 0.5), ("0", 0.0))


def _named(case: Case) -> Iterator[tuple[str, float]]:
    batch, split, spec = case.batch, case.split, case.spec
    step = [row for rank in split.judged(batch.rows) for rows in rank for row in rows]
    rows = len(step)
    tokens = int(batch.lengths[step].sum())
    filled = int((batch.lengths[step] > 0).sum())
    in_eval = split.accumulation_steps if split.mode is Mode.EVAL else 1
    yield "accumulation_steps", float(split.accumulation_steps)
    yield "accumulation_steps in evaluation", float(in_eval)
    yield "ranks", float(split.ranks)
    yield "steps_per_generation", float(split.steps_per_generation)
    yield "steps_per_generation/accumulation_steps", split.steps_per_generation / split.accumulation_steps
    yield "B", float(rows)
    yield "T", float(batch.columns)
    yield "sqrt((B - 1)/B)", math.sqrt((rows - 1) / rows)
    yield "B/(B + 1)", rows / (rows + 1)
    if rows > 1:
        yield "B/(B - 1)", rows / (rows - 1)
    yield "max_completion_length", float(spec.max_completion_length)
    if spec.beta:
        yield "beta", spec.beta
    if tokens:
        longest = int(batch.lengths[step].max())
        advantages = batch.token_advantages[step][batch.mask[step]]
        yield "N", float(tokens)
        yield "N/(N + 1)", tokens / (tokens + 1)
        yield "sqrt(N)", math.sqrt(tokens)
        yield "longest completion", float(longest)
        yield "T/longest completion", batch.columns / longest
        yield "max_completion_length/longest completion", spec.max_completion_length / longest
        yield "N/(B longest completion)", tokens / (rows * longest)
        for words, counted in (("other than 0", advantages != 0), ("above 0", advantages > 0)):
            yield f"N/(tokens with an advantage {words})", tokens / max(int(counted.sum()), 1)
        yield "N/B", tokens / rows
        yield "N/(B T)", tokens / (rows * batch.columns)
        yield "N/(generation batch)", tokens / float(batch.tokens)
        yield "B/(completions with tokens)", rows / filled
        yield "max_completion_length/T", spec.max_completion_length / batch.columns
        yield "N/max_completion_length", tokens / spec.max_completion_length
        yield "N/(B max_completion_length)", tokens / (rows * spec.max_completion_length)
    yield "ranks accumulation_steps", float(split.ranks * split.accumulation_steps)
