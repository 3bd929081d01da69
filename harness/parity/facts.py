"""What was seen of an execution over all its cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.parity.judged import Judged
from harness.parity.precision import effective_bits
from harness.parity.questions import CellKey
from harness.parity.session import Open
from reports.parity import Compiled, ExecutionFacts, ParityCell, Precision, Repeated
from reports.records import Verdict

ByCell = dict[CellKey, list[Judged]]

_COMPUTED: Final = "something is computed in "
_NARROWER: Final = 4.0
"""Bits by which a computation must fall short of its dtype for another one to be named."""


def facts_of(name: str, one: Open, by_cell: ByCell) -> ExecutionFacts:
    """What it is, whether it repeats itself, what of it was compiled and what was in force."""
    execution = one.execution
    if not one.lanes:
        return ExecutionFacts(
            name, execution.target, execution.device, execution.compiler, execution.threads, one.why_not
        )
    cases = [judged for many in by_cell.values() for judged in many]
    reports = [judged.outcome.execution for judged in cases if judged.outcome.execution]
    same = [bits for judged in cases for bits in judged.same_bits]
    return ExecutionFacts(
        name,
        one.one.facts.label,
        execution.device,
        execution.compiler,
        execution.threads,
        torch=one.one.facts.torch,
        settings=reports[-1]["settings"] if reports else {},
        repeated=Repeated(len(same), sum(same), sum(judged.nondeterministic for judged in cases)),
        compiled=_compiled(reports) if execution.is_compiled else None,
    )


def _compiled(reports: Sequence[Mapping[str, Any]]) -> Compiled:
    with_graphs = sum(report["graphs"] > 0 for report in reports)
    return Compiled(
        graphs=sum(report["compiled"] for report in reports),
        operations=sum(report["operations"] for report in reports),
        with_graphs=with_graphs,
        without=len(reports) - with_graphs,
    )


def precision_of(name: str, dtype: str, by_cell: ByCell, reported: Sequence[ParityCell]) -> Precision:
    """Its effective precision in a dtype, and a narrower dtype where the cells' signatures name one."""
    cells = {cell: cases for cell, cases in by_cell.items() if cell.dtype.name == dtype}
    known = (Verdict.KNOWN, Verdict.OVERFLOW)
    bits = effective_bits(one for cases in cells.values() for one in cases if one.judgement.verdict not in known)
    named = [
        voice.explanation.partition(_COMPUTED)[2].partition(";")[0]
        for cell in reported
        for voice in cell.voices
        if cell.dtype == dtype and voice.execution == name and voice.explanation.startswith(_COMPUTED)
    ]
    lost = next((cell.dtype.precision - bits for cell in cells), math.nan)
    return Precision(name, dtype, bits, named[0] if named and lost > _NARROWER else "")
