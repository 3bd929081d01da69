"""Padding hygiene: what may stand at masked positions without changing one bit of the answer.

Four lines, each tried in every tensor in turn: other `finite` numbers, which everybody must ignore; `huge` ones,
`inf` and `nan`, which a target may promise to ignore. A promised line that fails is a divergence; one that is not
promised is shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, starmap
from typing import Final, NamedTuple

import numpy as np

from cases.case import Case
from cases.conventions import PaddingPromise
from cases.descriptions import Description
from cases.dtypes import DType, FloatArray
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import regions_of
from cases.schedule import padding_descriptions
from cases.spec import Level
from harness.asking import Contestant
from harness.events import PaddingChecked
from harness.judge import bits_equal
from harness.outcome import Outcome
from harness.plan import Plan
from reports.records import NOT_COMPARED, Record, Verdict

_TENSORS: Final = ("logps", "old_logps", "ref_logps", "advantages", "sampling_logps", "importance_ratio")
AHEAD: Final = 12
"""Cases under way beside the one whose answers are looked at."""

_FINITE_SHIFT: Final = 0.375


@dataclass(frozen=True)
class Garbage:
    """One tensor of a case with other values at its masked positions; the rest is untouched."""

    line: PaddingPromise
    tensor: str
    values: FloatArray


def garbage(case: Case) -> Iterator[Garbage]:
    """Every line in every tensor of a case that has a value for each position."""
    batch = case.batch
    for line in PaddingPromise:
        for name in _TENSORS:
            values = getattr(batch, name)
            if values is None or values.shape != batch.mask.shape:
                continue
            unread = (name == "ref_logps" and case.spec.beta == 0) or (
                name == "sampling_logps" and case.spec.off_policy_mask_threshold is None
            )
            if not unread:
                yield Garbage(line, name, np.where(batch.mask, values, _filled(line, name, case, values)))


def _filled(line: PaddingPromise, name: str, case: Case, values: FloatArray) -> FloatArray:
    positive = name == "importance_ratio"
    # Alternating signs: what overflows only upwards, or only downwards, shows too.
    sign = np.where(np.indices(values.shape).sum(axis=0) % 2, 1.0 if positive else -1.0, 1.0)
    match line:
        case PaddingPromise.FINITE:
            return case.batch.dtype.round(values + _FINITE_SHIFT)
        case PaddingPromise.HUGE:
            return sign * case.batch.dtype.round(case.batch.dtype.largest / 2)
        case PaddingPromise.INF:
            return sign * np.inf
        case PaddingPromise.NAN:
            return np.full(values.shape, np.nan)


@dataclass(frozen=True)
class Checkup:
    """A part of the check: one batch, in every cell of its dtype and level."""

    dtype: DType
    level: Level
    description: Description


def checkups(plan: Plan) -> tuple[Checkup, ...]:
    """All parts of the check of a plan's cells."""
    return tuple(starmap(Checkup, product(plan.dtypes, plan.levels, padding_descriptions())))


def check(plan: Plan, contestants: Sequence[Contestant]) -> Iterator[PaddingChecked]:
    """Padding hygiene in every cell of every target."""
    yield from found(plan, checkups(plan), contestants)


def found(plan: Plan, checkups: Sequence[Checkup], contestants: Sequence[Contestant]) -> Iterator[PaddingChecked]:
    """What some parts of the check find; the next case is put before the answers to one are looked at."""
    under_way: deque[_Sent] = deque()
    try:
        for one, case in _cases(plan, checkups, contestants):
            under_way.append(_sent(one, case))
            if len(under_way) > AHEAD:
                yield from _checked(under_way.popleft())
        while under_way:
            yield from _checked(under_way.popleft())
    except GeneratorExit:
        # Whoever asks next must not get these answers.
        for sent in under_way:
            sent.outcomes()
        raise


def _cases(
    plan: Plan, checkups: Sequence[Checkup], contestants: Sequence[Contestant]
) -> Iterator[tuple[Contestant, Case]]:
    for checkup in checkups:
        dtype, level, description = checkup.dtype, checkup.level, checkup.description
        batch = realise(description, dtype, level)
        for loss_type, beta in product(plan.loss_types, plan.betas):
            case = case_for(description, batch, loss_type, level, beta)
            for one in contestants:
                if one.takes(loss_type, level, dtype):
                    yield one, one.under_conventions(case)


def read_at_masked_positions(one: Contestant, case: Case) -> tuple[str, ...]:
    """The tensors of a case of which other finite numbers at masked positions change the answer."""
    clean = one.client.ask(case, one.device)
    dirtied = [dirty for dirty in garbage(case) if dirty.line is PaddingPromise.FINITE]
    return tuple(
        dirty.tensor
        for dirty in dirtied
        if not bits_equal(clean, one.client.ask(case, one.device, {dirty.tensor: dirty.values}))
    )


class _Sent(NamedTuple):
    """A case under way: clean, once more, and with garbage in one tensor after the other."""

    one: Contestant
    case: Case
    numbers: tuple[int, ...]
    dirtied: tuple[Garbage, ...]

    def outcomes(self) -> list[Outcome]:
        """What became of each, in the order they were sent in."""
        return [self.one.client.receive(number) for number in self.numbers]


def _sent(one: Contestant, case: Case) -> _Sent:
    dirtied = tuple(garbage(case))
    twice = (one.client.submit(case, one.device, attempt=attempt) for attempt in (0, 1))
    others = (one.client.submit(case, one.device, {dirty.tensor: dirty.values}) for dirty in dirtied)
    return _Sent(one, case, (*twice, *others), dirtied)


def _checked(sent: _Sent) -> Iterator[PaddingChecked]:
    one, case = sent.one, sent.case
    clean, again, *outcomes = sent.outcomes()
    if clean.status != "ok" or not bits_equal(clean, again):
        # What differs from call to call cannot be told from what leaks; the case is judged elsewhere.
        return
    leaks: dict[PaddingPromise, dict[str, Outcome]] = {line: {} for line in PaddingPromise}
    for dirty, outcome in zip(sent.dirtied, outcomes, strict=True):
        if not bits_equal(clean, outcome):
            leaks[dirty.line][dirty.tensor] = outcome
    for line, leaked in leaks.items():
        promised = line in one.promises
        record = _record(one, case, line, clean, leaked) if leaked and promised else None
        yield PaddingChecked(one.cell(case), line, promised, tuple(leaked), record, case)


def _record(
    one: Contestant, case: Case, line: PaddingPromise, clean: Outcome, leaked: Mapping[str, Outcome]
) -> Record:
    """The record of a promised line that fails."""
    what = "; ".join(f"in {name}, {_change(clean, outcome)}" for name, outcome in leaked.items())
    message = f"{line} values at masked positions change the answer: {what}"
    cell, regions = one.cell(case), regions_of(case)
    expected = one.expect.find(cell, regions)
    return Record(
        cell=cell,
        case_id=case.id,
        description=-1,
        phase="padding",
        rows=case.batch.rows,
        columns=case.batch.columns,
        tokens=case.batch.tokens,
        regions=regions,
        verdict=Verdict.DIVERGES if expected is None else Verdict.KNOWN,
        loss=NOT_COMPARED,
        gradient=NOT_COMPARED,
        gradient_row=None,
        gradient_column=None,
        message=message if expected is None else f"{expected.reason}\n{message}",
        repeated=False,
        bits_equal=None,
    )


def _change(clean: Outcome, dirty: Outcome) -> str:
    if dirty.status != "ok":
        return f"it ends as {dirty.status}"
    if dirty.loss != clean.loss:
        return f"the loss is {dirty.loss:.9g} instead of {clean.loss:.9g}"
    return "the gradient changes"
