"""What diverged in a run, cell by cell, as entries are generated from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.expectations.entry import Span, Subject
from reports.records import Cell, Verdict
from reports.run import Run
from reports.schema import CELL_COLUMNS
from reports.table import cell_table

_COMPARED: Final = (
    Verdict.CONFORMS,
    Verdict.DIVERGES,
    Verdict.KNOWN,
    Verdict.OVERFLOW,
    Verdict.NONDETERMINISTIC,
)


@dataclass(frozen=True)
class Finding:
    """What is wrong with a cell in one line, the worst error / bound (NaN if none), the case that shows it."""

    signature: str
    worst: float
    witness: str

    def span(self) -> Span | None:
        """The worst error / bound with a decade of slack each way, in powers of ten; None where there is none."""
        if math.isnan(self.worst):
            return None
        if math.isinf(self.worst):
            return Span(math.inf, math.inf)
        decade = math.log10(max(self.worst, 1.0))
        # Below 1 nothing diverges.
        return Span(max(10.0 ** (math.floor(decade) - 1), 1.0), 10.0 ** (math.ceil(decade) + 1))


@dataclass(frozen=True)
class Seen:
    """What a run tells a writer of entries.

    * `subjects`: the targets, by label.
    * `judged`: the cells in which anything was compared.
    * `findings`: of cells that diverge unexpectedly, or as a generated entry says.
    * `others`: cells that fail in another way than by diverging.
    """

    subjects: Mapping[str, Subject]
    judged: tuple[Cell, ...]
    findings: Mapping[Cell, Finding]
    others: tuple[Cell, ...]

    @classmethod
    def of(cls, run: Run) -> Seen:
        """What a complete run tells."""
        rows = cell_table(run.rows).to_dict("records")
        cells = [_cell(row) for row in rows]
        compared = [any(row[verdict.value] for verdict in _COMPARED) for row in rows]
        witnesses = {cell: str(row["witness"]) for cell, row in zip(cells, rows, strict=True)}
        verdicts = {cell: Verdict(row["verdict"]) for cell, row in zip(cells, rows, strict=True)}
        named = zip(run.facts["requested"], run.facts["targets"].items(), strict=True)
        return cls(
            subjects={label: Subject.named(word, label, about["versions"]) for word, (label, about) in named},
            judged=tuple(cell for cell, any_compared in zip(cells, compared, strict=True) if any_compared),
            findings={
                cell: Finding(signature, worst, witnesses[cell])
                for cell, signature, worst in _signatures(run, verdicts)
            },
            others=tuple(
                cell for cell, verdict in verdicts.items() if verdict.fails and verdict is not Verdict.DIVERGES
            ),
        )


def _signatures(run: Run, verdicts: Mapping[Cell, Verdict]) -> Iterator[tuple[Cell, str, float]]:
    worst = _worst_of_diverging(run)
    for finding in run.facts["findings"]:
        cell = _cell(finding)
        if verdicts[cell] is Verdict.DIVERGES:
            yield cell, finding["signature"], worst.get(cell, math.nan)
    for record in run.facts["expectations"]:
        if record["expects"].get("generated"):
            for covered in record["cells"]:
                ratio = math.nan if covered["worst"] is None else float(covered["worst"])
                yield _cell(covered), covered["found"], ratio


def _worst_of_diverging(run: Run) -> dict[Cell, float]:
    """The largest error / bound, but for shrunk cases: a cell that is expected to diverge has none."""
    rows = run.rows[(run.rows["verdict"] == Verdict.DIVERGES.value) & (run.rows["phase"] != "shrunk")]
    ratios = rows[["loss_ratio", "gradient_ratio"]].max(axis=1)
    largest: dict[Cell, float] = {}
    for row, ratio in zip(rows[list(CELL_COLUMNS)].to_dict("records"), ratios, strict=True):
        if not math.isnan(ratio):
            largest[_cell(row)] = max(largest.get(_cell(row), 0.0), float(ratio))
    return largest


def _cell(row: Mapping[Any, Any]) -> Cell:
    return Cell(**{column: row[column] for column in CELL_COLUMNS})
