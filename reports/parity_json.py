"""A parity check as JSON: format `lossgate-parity/1`, which docs/parity.md describes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any, Final

from reports.parity import Parity

FORMAT: Final = "lossgate-parity/1"


def render(parity: Parity) -> str:
    """All of it as JSON text."""
    return json.dumps(as_json(parity), indent=2) + "\n"


def as_json(parity: Parity) -> dict[str, Any]:
    """All of it as JSON data: infinity is "inf", what was not compared is null."""
    reference = parity.reference
    return {
        "format": FORMAT,
        "target": parity.target,
        "exit_code": parity.exit_code,
        "reference": None if reference is None else reference.name,
        "about": dict(parity.about),
        "findings": list(parity.findings),
        "notes": list(parity.notes),
        "executions": [
            {
                **_plain(asdict(one)),
                "available": not one.why_not,
                "repeated": None
                if one.repeated is None
                else {**asdict(one.repeated), "words": one.repeated.words},
                "compiled": None
                if one.compiled is None
                else {**asdict(one.compiled), "words": one.compiled.words},
            }
            for one in parity.executions
        ],
        "precisions": [_plain(asdict(one)) for one in parity.precisions],
        "cells": [_plain(asdict(one)) for one in parity.cells],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
