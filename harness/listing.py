"""What can be tested in an interpreter, as JSON data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from harness.client import WorkerClient
from harness.engine import as_facts
from harness.entry_points import shipped
from harness.outcome import TargetUnavailable
from harness.releases.libraries import LIBRARIES

PATTERNS: Final = {
    "LIBRARY==VERSION": "a release of one of these libraries, fetched once into a cache, such as trl==1.9.0",
    "module:Class": "a GRPO trainer, a subclass or a copy of TRL's, such as my_pkg.trainer:MyGRPOTrainer",
    "module:function": "a Python callable, its arguments mapped by name, such as my_pkg.losses:grpo_loss",
    "./lib.so#ns::op": "an operator of a compiled extension, such as ./libgrpo.so#ns::grpo_loss",
    "fault:NAME": "a seeded fault, the formula with one deliberate mistake, such as fault:no_clip",
    "NAME": "what an installed package ships as an entry point of the group lossgate.targets",
}


def listing(python: str | None = None) -> Iterator[dict[str, Any]]:
    """Every target name with what it supports; what is installed is opened in the interpreter to find out."""
    interpreter = python or sys.executable
    for library in LIBRARIES.values():
        yield {"name": library.name, "about": library.about, **_opened(library.name, interpreter)}
    for one in shipped(interpreter):
        about = f"shipped by {one.package} {one.version}"
        yield {"name": one.name, "about": about, **_opened(one.name, interpreter)}
    for name, about in PATTERNS.items():
        yield {"name": name, "about": about, "checked": False}


def _opened(name: str, python: str) -> dict[str, Any]:
    try:
        with WorkerClient(python, name) as client:
            facts = client.facts
    except TargetUnavailable as failure:
        return {"checked": True, "loads": False, "why_not": failure.message, "hint": failure.hint}
    return {"checked": True, "loads": True, "label": facts.label, **as_facts(facts)}
