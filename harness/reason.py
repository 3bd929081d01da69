"""What is wrong with one stored case: what its run says of its cell, else what would explain it alone."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from cases.large import is_large
from harness.signature.evidence import Answered, Evidence, Where
from harness.signature.signature import signature
from reports.records import Cell

_NOWHERE = Where({}, {}, 0, 0)


def of_the_cell(cell: Cell, path: Path) -> str:
    """What the run that a case's file lies in says is wrong with a cell; "" where it lies in none."""
    try:
        facts = json.loads((path.resolve().parent.parent / "run.json").read_text(encoding="utf-8"))
        found = [entry["signature"] for entry in facts["findings"] if asdict(cell).items() <= entry.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    return str(found[0]) if found else ""


def alone(answered: Answered) -> str:
    """The signature of one case by itself."""
    if is_large(answered.case.batch):
        return "not looked for in a batch of this size"
    return signature(Evidence((answered,), (), _NOWHERE)).text
