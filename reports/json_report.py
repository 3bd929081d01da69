"""The table as JSON for other programs; its JSON Schema is shipped beside this file.

JSON has no NaN and no infinity: a number that is NaN (nothing was compared) is null, an infinite one is the
string "inf" or "-inf".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

import pandas as pd

from reports.expectations import as_judged
from reports.facts import Facts, is_complete
from reports.schema import CELL_COLUMNS, MEASURES
from reports.table import QUANTITIES, VERDICTS, TargetSummary, summary

FORMAT: Final = "lossgate-report/1"


def render(table: pd.DataFrame, facts: Facts) -> str:
    """What `cell_table` made, and the facts of the run, as JSON text.

    Raises `TypeError` when a fact is no JSON.
    """
    table = as_judged(table, facts)
    report = {
        "format": FORMAT,
        "complete": is_complete(facts),
        "facts": facts,
        "summaries": [_summary(target) for target in summary(table)],
        "cells": [_cell(row) for row in table.to_dict("records")],
    }
    return json.dumps(_plain(report), indent=2, allow_nan=False) + "\n"


def schema() -> str:
    """The JSON Schema (2020-12) of what `render` returns."""
    return resources.files("reports").joinpath("report.schema.json").read_text(encoding="utf-8")


def _summary(target: TargetSummary) -> dict[str, Any]:
    return {
        "target": target.target,
        "verdict": target.verdict,
        "cells": target.cells,
        "cases": target.cases,
        "sentence": target.sentence,
    }


def _cell(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        **{column: row[column] for column in CELL_COLUMNS},
        "cases": row["cases"],
        "verdicts": {verdict: row[verdict] for verdict in VERDICTS},
        "verdict": row["verdict"],
        **{quantity: {measure: row[f"{quantity}_{measure}"] for measure in MEASURES} for quantity in QUANTITIES},
        "witness": row["witness"],
        "message": row["message"],
        "also": row["also"],
        "bits_equal": row["bits_equal"],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
