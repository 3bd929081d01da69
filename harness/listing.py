"""What can be tested in an interpreter, as JSON data."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any, Final

from harness.client import WorkerClient
from harness.engine import as_facts
from harness.outcome import TargetUnavailable

LIBRARIES: Final = {"trl": "TRL's GRPOTrainer, through its public compute_loss"}
PATTERNS: Final = {
    "fault:NAME": "a seeded fault, the formula with one deliberate mistake, such as fault:no_clip",
    "module:function": "a Python callable, its arguments mapped by name, such as my_pkg.losses:grpo_loss",
}


def listing(python: str | None = None) -> list[dict[str, Any]]:
    """Every target name with what it supports; libraries are opened in the interpreter to find out."""
    opened = [
        {"name": name, "about": about, **_opened(name, python or sys.executable)}
        for name, about in LIBRARIES.items()
    ]
    patterns = [{"name": name, "about": about, "checked": False} for name, about in PATTERNS.items()]
    return opened + patterns


def _opened(name: str, python: str) -> dict[str, Any]:
    try:
        with WorkerClient(python, name) as client:
            facts = client.facts
    except TargetUnavailable as failure:
        return {"checked": True, "loads": False, "why_not": failure.message, "hint": failure.hint}
    return {
        "checked": True,
        "loads": True,
        "label": facts.label,
        "supports": asdict(facts.supports),
        **as_facts(facts),
    }
