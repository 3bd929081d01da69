"""What became of one of several targets that are shown side by side: its cells, or why it has none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from reports.facts import findings
from reports.records import Verdict
from reports.run import Run
from reports.schema import CELL_COLUMNS
from reports.table import cell_table


@dataclass(frozen=True, order=True)
class Asked:
    """What a cell asks of whichever target; the order is that of the fields' texts and numbers."""

    loss_type: str
    level: str
    beta: float
    dtype: str

    def __str__(self) -> str:
        return f"{self.loss_type} {self.level} beta {self.beta:g} {self.dtype}"


@dataclass(frozen=True)
class Result:
    """How one cell ended.

    `error` is the largest error / bound of loss and gradient, NaN where nothing was compared; `signature` says
    what is wrong, "" where nothing is; `witness` is the id of the case that shows it.
    """

    asked: Asked
    verdict: Verdict
    error: float
    cases: int
    signature: str = ""
    witness: str = ""

    def as_facts(self) -> dict[str, Any]:
        """The result as JSON data: null for NaN, "inf" for an error without a bound."""
        own = asdict(self)
        error = None if math.isnan(self.error) else self.error if math.isfinite(self.error) else "inf"
        return {**own.pop("asked"), **own, "verdict": str(self.verdict), "error": error}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """What `as_facts` wrote. Raises `KeyError`, `TypeError` or `ValueError` when it did not."""
        asked = Asked(**{name: facts[name] for name in Asked.__dataclass_fields__})
        error = math.nan if facts["error"] is None else float(facts["error"])
        texts = str(facts["signature"]), str(facts["witness"])
        return cls(asked, Verdict(facts["verdict"]), error, int(facts["cases"]), *texts)


@dataclass(frozen=True)
class Column:
    """One target: its name among the others and its cells, in the order of the run.

    `why_not` is one sentence where it could not be judged; `folder` is that of its run, below that of all, or "".
    """

    name: str
    results: tuple[Result, ...] = ()
    folder: str = ""
    why_not: str = ""

    @classmethod
    def of(cls, name: str, run: Run, folder: str) -> Self:
        """The column of a target that a run judged alone. A cell whose cases are all refused is none."""
        signatures = findings(run.facts)
        return cls(name, tuple(_results(run, signatures)), folder)

    def result(self, asked: Asked) -> Result | None:
        """What became of a cell; None where the target does not have it."""
        return next((one for one in self.results if one.asked == asked), None)

    def as_facts(self) -> dict[str, Any]:
        """The column as JSON data."""
        return {
            "name": self.name,
            "folder": self.folder,
            "why_not": self.why_not,
            "cells": [one.as_facts() for one in self.results],
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """What `as_facts` wrote. Raises `KeyError`, `TypeError` or `ValueError` when it did not."""
        results = tuple(map(Result.from_facts, facts["cells"]))
        return cls(str(facts["name"]), results, str(facts["folder"]), str(facts["why_not"]))


def _results(run: Run, signatures: Mapping[tuple[Any, ...], str]) -> list[Result]:
    results = []
    for row in cell_table(run.rows).to_dict("records"):
        verdict = Verdict(row["verdict"])
        if verdict is Verdict.UNSUPPORTED:
            continue
        found = signatures.get(tuple(row[column] for column in CELL_COLUMNS), "")
        # Where nothing was read off the failing cases, the witness's own message stands for it.
        said = found or row["message"].split("\n")[0] if verdict.fails else ""
        asked = Asked(row["loss_type"], row["level"], row["beta"], row["dtype"])
        errors = [row[f"{name}_ratio"] for name in ("loss", "gradient") if not math.isnan(row[f"{name}_ratio"])]
        results.append(
            Result(asked, verdict, max(errors, default=math.nan), int(row["cases"]), said, row["witness"])
        )
    return results
