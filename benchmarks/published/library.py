"""The page of one library: the run of one target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from benchmarks.published.head import FAIR, Head, grid
from reports import facts as told
from reports.expectations import as_judged, expected
from reports.markdown import escape
from reports.notation import compact
from reports.records import Verdict
from reports.run import Run
from reports.schema import CELL_COLUMNS
from reports.table import cell_table, summary

SECTION: Final = "Current releases"
_NO_VERSION: Final = "from"
"""Where a library was found: no version, and another place on each machine."""


def page(run: Run, command: str) -> str:
    """The page of a run of one target."""
    return "\n".join(_lines(run, command)) + "\n"


def _lines(run: Run, command: str) -> Iterator[str]:
    table = as_judged(cell_table(run.rows), run.facts)
    (whole,) = summary(table)
    (label, about), *_ = run.facts["targets"].items()
    versions = {name: str(one) for name, one in about["versions"].items() if name != _NO_VERSION}
    yield from Head(
        section=SECTION,
        title=label,
        date=run.facts["started"][:10],
        command=command,
        versions={"lossgate": run.facts["lossgate"], **versions, "python": about["python"]},
        result=f"{whole.sentence}.",
    ).lines()
    yield FAIR
    yield "## What was judged"
    yield ""
    yield from _judged(run, label)
    yield "## Cells by verdict"
    yield ""
    yield from grid(
        ["verdict", "cells", "cases in them"],
        [
            [str(verdict), f"{count:,}", f"{int(table.loc[table['verdict'] == verdict.value, 'cases'].sum()):,}"]
            for verdict, count in whole.cells.items()
        ],
    )
    yield "## Loss by loss"
    yield ""
    yield "A cell: its verdict, then the largest error / bound of loss and gradient; above 1, rounding does not"
    yield "explain it."
    yield ""
    yield from _by_loss(table, run.facts["dtypes"])
    yield from _unsupported(table)
    yield from _known(run)
    yield from _wrong(run, table)


def _judged(run: Run, label: str) -> Iterator[str]:
    replaced = run.facts["targets"][label].get("replaced", [])
    asked = (
        f"loss types {', '.join(run.facts['loss_types'])}; levels {', '.join(run.facts['levels'])}; "
        f"beta {', '.join(f'{beta:g}' for beta in run.facts['betas'])}; dtypes {', '.join(run.facts['dtypes'])}"
    )
    cases = (
        f"profile {run.facts['profile']}, seed {run.facts['seed']}, {run.facts['examples']} drawn cases per cell, "
        f"case set {run.facts['case_set']}"
    )
    lines = (
        asked,
        cases,
        told.not_supported(run.facts, label),
        f"replaced in it: {'; '.join(replaced)}" if replaced else "",
        told.conventions_summary(run.facts, label) or "conventions: the usual ones",
        told.padding_summary(run.facts, label),
        told.strength_summary(run.facts, label),
    )
    for line in filter(None, lines):
        yield f"* {escape(line)}"
    yield ""


def _by_loss(table: pd.DataFrame, dtypes: list[str]) -> Iterator[str]:
    rows = []
    for (loss_type, level, beta), cells in table.groupby(["loss_type", "level", "beta"], sort=False):
        by_dtype = {row["dtype"]: _cell(row) for row in cells.to_dict("records")}
        rows.append([escape(loss_type), level, f"{beta:g}", *(by_dtype.get(dtype, "") for dtype in dtypes)])
    yield from grid(["loss_type", "level", "beta", *dtypes], rows)


def _cell(row: Mapping[Any, Any]) -> str:
    ratios = [float(row[f"{name}_ratio"]) for name in ("loss", "gradient")]
    known = [ratio for ratio in ratios if ratio == ratio]
    return f"{row['verdict']} {compact(max(known))}" if known else str(row["verdict"])


def _unsupported(table: pd.DataFrame) -> Iterator[str]:
    refused = table[table["verdict"] == Verdict.UNSUPPORTED.value]
    if len(refused):
        for message in dict.fromkeys(refused["message"].str.split("\n").str[0]):
            yield f"* unsupported: {escape(str(message))}"
        yield ""


def _known(run: Run) -> Iterator[str]:
    entries = [one for one in expected(run.facts) if one.cases]
    if not entries:
        return
    witnesses = {
        one["expects"]["number"]: one["expects"].get("witness", "") for one in run.facts.get("expectations", [])
    }
    numbers = [one["expects"]["number"] for one in run.facts["expectations"] if one["cases"]]
    yield "## Known divergences"
    yield ""
    rows = [
        [escape(one.what), escape(one.extent), escape(one.reason), _link(witnesses[number])]
        for one, number in zip(entries, numbers, strict=True)
    ]
    yield from grid(["where", "how far", "reason", "witness"], rows)


def _link(witness: str) -> str:
    return f"[{Path(witness).stem}](../../{witness})" if witness else ""


def _wrong(run: Run, table: pd.DataFrame) -> Iterator[str]:
    signatures = told.findings(run.facts)
    failing = [row for row in table.to_dict("records") if Verdict(row["verdict"]).fails]
    if not failing:
        return
    yield "## What differs otherwise"
    yield ""
    rows = []
    for row in failing:
        where = f"{row['loss_type']} {row['level']} beta {row['beta']:g} {row['dtype']}"
        said = signatures.get(tuple(row[column] for column in CELL_COLUMNS), "") or row["message"]
        rows.append([escape(where), escape(said), f"`{row['witness']}`"])
    yield from grid(["cell", "how it differs", "witness"], rows)
