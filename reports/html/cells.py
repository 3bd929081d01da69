"""A cell as the report shows it: its verdict in a word, a sign and a tone, and its detail."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from reports.facts import corpus_case
from reports.gate import Entry, Gate, Status
from reports.html.agreement import Agreement
from reports.html.anchors import anchors
from reports.html.charts import Histogram, Scatter
from reports.html.regions import RegionShare, shares
from reports.html.witness import Witness, kept_scatters, witness_of
from reports.notation import one_line
from reports.records import Verdict
from reports.run import Run
from reports.schema import CELL_COLUMNS, MEASURES
from reports.table import QUANTITIES

SIGNS: Final = {
    Verdict.CONFORMS.value: "✓",
    Verdict.OVERFLOW.value: "∞",
    Verdict.KNOWN.value: "≈",
    Verdict.UNSUPPORTED.value: "○",
    Verdict.NONDETERMINISTIC.value: "↻",
    Verdict.DIVERGES.value: "✗",
    Verdict.ERROR.value: "!",
    Verdict.TIMEOUT.value: "…",
    Verdict.CRASH.value: "†",
    "not-judged": "?",
}
"""A sign beside each word, since colour says nothing to some and nothing on paper."""

_TONES: Final = {Verdict.CONFORMS.value: "good", Verdict.UNSUPPORTED.value: "none"}


@dataclass(frozen=True)
class Error:
    """The largest divergence of one quantity in a cell: absolute, in ulps, as error / bound."""

    name: str
    absolute: float
    ulps: float
    ratio: float


@dataclass(frozen=True, eq=False)
class CellView:
    """One cell. `explains` is whether its headline accounts for every number seen, None where nothing is said."""

    anchor: str
    entry: Entry
    agreement: Agreement
    failing: int
    judged: int
    errors: tuple[Error, ...]
    also: str
    bits_equal: str
    explains: bool | None
    corpus: str
    case_file: str
    histograms: tuple[Histogram, ...]
    by_tokens: Scatter | None
    scatters: tuple[Scatter, ...]
    regions: tuple[RegionShare, ...]
    witness: Witness | None

    @property
    def sign(self) -> str:
        """One character."""
        return SIGNS[self.entry.kind]

    @property
    def tone(self) -> str:
        """What its colour says: "bad", "warn", "good", or "none"."""
        if self.entry.status.stops:
            return "bad"
        if self.entry.status is Status.SKIPPED and self.entry.kind == Verdict.CONFORMS.value:
            return "none"
        return _TONES.get(self.entry.kind, "warn")

    @property
    def rank(self) -> int:
        """Worst first."""
        return ("bad", "warn", "good", "none").index(self.tone)

    @property
    def error(self) -> float:
        """The largest error / bound; NaN where nothing was compared."""
        return max((one.ratio for one in self.errors if not math.isnan(one.ratio)), default=math.nan)

    @property
    def sort_key(self) -> str:
        """The same for a script, which knows no NaN."""
        return "-1" if math.isnan(self.error) else f"{min(self.error, 1e308):.6g}"

    @property
    def replay(self) -> str:
        """The command that puts the witness to the target again."""
        return f"lossgate replay {shlex.quote(self.case_file)} {shlex.quote(self.entry.subject.word)}"

    @property
    def explain(self) -> str:
        """The command that shows the witness token by token."""
        return f"lossgate explain {shlex.quote(self.case_file)} {shlex.quote(self.entry.subject.word)}"


def cells_of(run: Run, gate: Gate) -> list[CellView]:
    """The cells of a run, in the order of its table."""
    by_cell = dict(list(run.rows.groupby(list(CELL_COLUMNS), sort=False)))
    explains = {
        tuple(one[column] for column in CELL_COLUMNS): one.get("explains") is True
        for one in run.facts.get("findings", [])
    }
    named = anchors(gate.entries)
    views = []
    for anchor, entry, row in zip(named, gate.entries, gate.table.to_dict("records"), strict=True):
        key = tuple(row[column] for column in CELL_COLUMNS)
        views.append(_view(run, anchor, entry, row, by_cell[key], explains.get(key)))
    return views


def _view(
    run: Run, anchor: str, entry: Entry, row: dict[Any, Any], rows: pd.DataFrame, explains: bool | None
) -> CellView:
    stops = entry.status.stops
    is_shown = stops or entry.kind in (Verdict.KNOWN.value, Verdict.OVERFLOW.value)
    scheduled = rows[rows["phase"] != "shrunk"]
    worst = scheduled[["loss_ratio", "gradient_ratio"]].max(axis=1)
    return CellView(
        anchor=anchor,
        entry=entry,
        agreement=Agreement.of_cell(row),
        failing=sum(row[one.value] for one in Verdict if one.fails),
        judged=row["cases"] - row[Verdict.UNSUPPORTED.value],
        errors=tuple(_errors(row)),
        also=one_line(row["also"]),
        bits_equal=row["bits_equal"],
        explains=explains if stops else None,
        corpus=corpus_case(run.facts, row["witness"]),
        case_file=str(run.path / "cases" / f"{row['witness']}.json"),
        histograms=tuple(
            found
            for name in QUANTITIES
            if (found := Histogram.of(name, scheduled[f"{name}_ratio"].tolist())) is not None
        ),
        by_tokens=Scatter.of(
            "unmasked tokens of the case", zip(scheduled["tokens"], worst, strict=True), logarithmic=True
        ),
        scatters=tuple(kept_scatters(run, rows)) if stops else (),
        regions=tuple(shares(scheduled)),
        witness=witness_of(run, row, rows) if is_shown else None,
    )


def _errors(row: dict[Any, Any]) -> Iterator[Error]:
    for name in QUANTITIES:
        numbers = [float(row[f"{name}_{measure}"]) for measure in MEASURES]
        if not math.isnan(numbers[-1]):
            yield Error(name, *numbers)
