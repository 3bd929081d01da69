"""A parity check on a terminal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from reports.notation import compact, one_line
from reports.parity import Apart, ExecutionFacts, PairVerdict, Parity, ParityCell
from reports.records import Verdict

LEGEND: Final = (
    "apart: largest distance from the reference, loss / gradient, in ulps; error / bound: the largest of each "
    "execution (above 1: not rounding); bits: effective significand bits"
)
SUMMARY_HEADER: Final = ("dtype", "execution", "cells", "verdict", "apart", "same bits", "error / bound", "bits")
CELL_HEADER: Final = (
    "loss_type",
    "level",
    "beta",
    "dtype",
    "execution",
    "verdict",
    "apart",
    "same bits",
    "error / bound",
)
REFERENCE: Final = "reference"

_GAP: Final = 2


def render(parity: Parity, console: Console, show_all: bool = False) -> None:
    """Print the executions, a summary for each dtype, the cells that are not equal, or all, and what was found."""
    reference = parity.reference
    console.print(Text(f"{one_line(parity.target)}  parity", style="bold"))
    for one in parity.executions:
        about = " ".join(execution_words(one, one is reference))
        console.print(
            Padding(
                Text(one_line(f"{one.name}: {about}"), style="" if not one.why_not else "yellow"), (0, 0, 0, 2)
            )
        )
    console.print()
    if parity.cells:
        _print(SUMMARY_HEADER, list(summary_rows(parity)), console)
        console.print()
    shown = [cell for cell in parity.cells if show_all or not cell.is_quiet]
    if shown:
        _print(CELL_HEADER, [row for cell in shown for row in cell_rows(cell)], console)
        console.print()
    if parity.cells:
        console.print(Text(LEGEND, style="dim"))
    for note in parity.notes:
        console.print(Text(one_line(note), style="yellow"))
    for finding in parity.findings:
        console.print(Text(one_line(finding), style="bold red"))
    console.print(Text(verdict_sentence(parity), style="green" if parity.exit_code == 0 else "bold red"))
    console.print(Text(about_line(parity), style="dim"))


def execution_words(one: ExecutionFacts, is_reference: bool) -> Iterator[str]:
    """What is said of an execution in its line."""
    if one.why_not:
        yield f"not available ({one.why_not})"
        return
    yield f"{one.label}, torch {one.torch};"
    if is_reference:
        yield "the reference;"
    if one.compiled is not None:
        yield f"{one.compiled.words};"
    if one.repeated is not None:
        yield one.repeated.words


def summary_rows(parity: Parity) -> Iterator[tuple[str, ...]]:
    """A row for each dtype and execution."""
    bits = {(one.execution, one.dtype): one.bits for one in parity.precisions}
    for dtype in parity.dtypes:
        cells = [cell for cell in parity.cells if cell.dtype == dtype]
        for one in parity.executions:
            voices = [voice for cell in cells for voice in cell.voices if voice.execution == one.name]
            if one.why_not or not voices:
                continue
            pairs = [pair for cell in cells for pair in cell.pairs if pair.execution == one.name]
            verdicts: Counter[str] = Counter(str(pair.verdict) for pair in pairs) or Counter(
                str(voice.verdict) for voice in voices
            )
            yield (
                dtype,
                one.name,
                str(len(voices)),
                ", ".join(f"{count} {words}" for words, count in verdicts.items()),
                *_apart(Apart.over([pair.apart for pair in pairs]), bool(pairs)),
                _ratios([voice.loss_ratio for voice in voices], [voice.gradient_ratio for voice in voices]),
                _bits(bits.get((one.name, dtype), math.nan)),
            )


def cell_rows(cell: ParityCell) -> Iterator[tuple[str, ...]]:
    """A row for each execution of a cell."""
    pairs = {pair.execution: pair for pair in cell.pairs}
    for number, voice in enumerate(cell.voices):
        place = (cell.loss_type, cell.level, f"{cell.beta:g}", cell.dtype) if number == 0 else ("", "", "", "")
        pair = pairs.get(voice.execution)
        verdict = voice.verdict.value.upper() if voice.verdict.fails else voice.verdict.value
        if pair is not None and pair.verdict is not PairVerdict.NOT_COMPARED and not voice.verdict.fails:
            verdict = f"{verdict}, {pair.verdict}"
        yield (
            *place,
            voice.execution,
            verdict,
            *_apart(pair.apart if pair else Apart(0, 0, math.nan, math.nan), pair is not None),
            _ratios([voice.loss_ratio], [voice.gradient_ratio]),
        )


def verdict_sentence(parity: Parity) -> str:
    """The whole in one sentence."""
    available = [one for one in parity.executions if not one.why_not]
    missing = len(parity.executions) - len(available)
    cells = len(parity.cells)
    counted = Counter(pair.verdict for cell in parity.cells for pair in cell.pairs)
    failing = sum(any(voice.verdict.fails for voice in cell.voices) for cell in parity.cells)
    known = sum(any(voice.verdict is Verdict.KNOWN for voice in cell.voices) for cell in parity.cells)
    parts = [f"{cells} cell{'' if cells == 1 else 's'}, {len(available)} of {len(parity.executions)} executions"]
    parts += [f"{count} {verdict}" for verdict, count in counted.items()]
    if not counted:
        parts.append("nothing to compare the reference with" if missing else "one execution, judged by the oracle")
    if failing:
        parts.append(f"{failing} with an execution that fails")
    elif known:
        parts.append(f"{known} with a known divergence")
    return f"{one_line(parity.target)}: {'; '.join(parts)}"


def about_line(parity: Parity) -> str:
    """Versions, seed, contract and case set."""
    return "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in parity.about.items())


def _apart(apart: Apart, is_pair: bool) -> tuple[str, str]:
    if not is_pair:
        return REFERENCE, ""
    distance = f"{_ulps(apart.loss_ulps)} / {_ulps(apart.gradient_ulps)}"
    return distance, f"{apart.same_bits}/{apart.cases}" if apart.cases else "-"


def _ulps(value: float) -> str:
    return compact(value) + ("u" if math.isfinite(value) else "")


def _ratios(losses: Sequence[float], gradients: Sequence[float]) -> str:
    return f"{compact(_largest(losses))} / {compact(_largest(gradients))}"


def _largest(values: Sequence[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _bits(bits: float) -> str:
    if math.isnan(bits):
        return "-"
    return "exact" if math.isinf(bits) else f"{max(bits, 0.0):.0f}"


def _print(header: Sequence[str], rows: list[tuple[str, ...]], console: Console) -> None:
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="dim")
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(one_line(text)) for text in row))
    console.print(table)
