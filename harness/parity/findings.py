"""What a parity check says in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from harness.parity.plan import ParityPlan
from reports.parity import ExecutionFacts, PairVerdict, ParityCell, Precision, Voice
from reports.records import Verdict

_AS_USUAL: Final[Mapping[str, Any]] = {
    "float32_matmul_precision": "highest",
    "flush_denormal": False,
    "tf32_matmul": False,
    "tf32_cudnn": True,
    "bf16_reduced_precision_reduction": True,
    "fp16_reduced_precision_reduction": True,
    "inductor_fast_math": False,
    "inductor_unsafe_math": False,
    "inductor_contracts_products": "off",
    "inductor_rounds_as_eager": False,
}
"""What torch sets by itself; only a departure is worth a line."""

_WIDE: Final = ("float32", "float64")


def findings_of(
    plan: ParityPlan,
    executions: Sequence[ExecutionFacts],
    cells: Sequence[ParityCell],
    precisions: Sequence[Precision],
) -> tuple[str, ...]:
    """What is wrong, the most telling first; each sentence once."""
    return tuple(
        dict.fromkeys(
            (
                *_nondeterministic(executions),
                *_across_dtypes(executions, cells),
                *_outside(executions, cells),
                *_not_about_the_device(plan, cells),
                *_computed_in(precisions),
                *_not_compiled(executions),
            )
        )
    )


def notes_of(executions: Sequence[ExecutionFacts]) -> tuple[str, ...]:
    """What is in force that changes how numbers are rounded, where it is not as torch sets it by itself."""
    said: dict[str, list[str]] = {}
    for one in executions:
        for name, value in (one.settings or {}).items():
            if name in _AS_USUAL and value != _AS_USUAL[name]:
                said.setdefault(f"{name} is {value}", []).append(one.name)
    return tuple(f"in force in {', '.join(names)}: {words}" for words, names in said.items())


def _nondeterministic(executions: Sequence[ExecutionFacts]) -> Iterator[str]:
    for one in executions:
        if one.repeated is not None and one.repeated.beyond:
            yield f"{one.name}: {one.repeated.words}"


def _across_dtypes(executions: Sequence[ExecutionFacts], cells: Sequence[ParityCell]) -> Iterator[str]:
    """What is right in a wide dtype and wrong in a half type, grouped by what is wrong."""
    for one in executions:
        groups: dict[tuple[str, str, str], list[str]] = {}
        for cell, voice in _failing(one, cells):
            right = _right_in(cells, cell, one)
            if right and voice.verdict is Verdict.DIVERGES:
                groups.setdefault((right, cell.dtype, voice.explanation), []).append(_place(cell))
        for (right, dtype, why), places in groups.items():
            yield f"{one.name}: right in {right}, not in {dtype}: {why} ({_listed(places)})"


def _outside(executions: Sequence[ExecutionFacts], cells: Sequence[ParityCell]) -> Iterator[str]:
    """What else is outside."""
    for one in executions:
        groups: dict[str, list[str]] = {}
        for cell, voice in _failing(one, cells):
            said = voice.verdict is Verdict.DIVERGES and _right_in(cells, cell, one)
            if not said and voice.verdict is not Verdict.NONDETERMINISTIC:
                groups.setdefault(voice.explanation or f"{voice.verdict}: {voice.message}", []).append(cell.name)
        for why, places in groups.items():
            yield f"{one.name}: outside the bound in {_listed(places)}: {why}"


def _failing(one: ExecutionFacts, cells: Sequence[ParityCell]) -> Iterator[tuple[ParityCell, Voice]]:
    for cell in cells:
        for voice in cell.voices:
            if voice.execution == one.name and voice.verdict.fails:
                yield cell, voice


def _right_in(cells: Sequence[ParityCell], wrong: ParityCell, one: ExecutionFacts) -> str:
    """A wider dtype in which an execution conforms where it fails in a half type; "" for none."""
    if wrong.dtype in _WIDE:
        return ""
    conforming = {
        cell.dtype
        for cell in cells
        if _place(cell) == _place(wrong)
        for voice in cell.voices
        if voice.execution == one.name and voice.verdict is Verdict.CONFORMS
    }
    return next((dtype for dtype in _WIDE if dtype in conforming), "")


def _not_about_the_device(plan: ParityPlan, cells: Sequence[ParityCell]) -> Iterator[str]:
    both = [cell for cell in cells if any(pair.verdict is PairVerdict.BOTH_OUTSIDE for pair in cell.pairs)]
    if both:
        target = plan.target
        losses = ",".join(dict.fromkeys(cell.loss_type for cell in both))
        dtypes = ",".join(dict.fromkeys(cell.dtype for cell in both))
        yield (
            f"both outside in {_listed([cell.name for cell in both])}: this is not about how it is executed; "
            f"next: lossgate run {target} --loss-type {losses} --dtype {dtypes}"
        )


def _computed_in(precisions: Sequence[Precision]) -> Iterator[str]:
    for one in precisions:
        if one.computed_in:
            yield (
                f"{one.execution}: in {one.dtype} its errors are those of about {one.bits:.0f} bits: "
                f"something here is computed in {one.computed_in}"
            )


def _not_compiled(executions: Sequence[ExecutionFacts]) -> Iterator[str]:
    for one in executions:
        if one.compiled is not None and not one.compiled.with_graphs:
            yield f"{one.name}: {one.compiled.words}, so that it equals eager says nothing"


def _place(cell: ParityCell) -> str:
    return f"{cell.loss_type} {cell.level} beta {cell.beta:g}"


def _listed(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1} more"
