"""Which targets the packages of an interpreter ship, without starting one."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Final

from harness.worker_process import WORKER, find_python

_TIMEOUT: Final = 60.0


@dataclass(frozen=True)
class Shipped:
    """A target of an installed package: its name on the command line, and the package with its version."""

    name: str
    package: str
    version: str


def shipped(python: str) -> tuple[Shipped, ...]:
    """The targets that packages ship, by name; none where the interpreter does not say."""
    try:
        result = subprocess.run(
            [find_python(python), WORKER / "entry_points.py"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=True,
        )
        return tuple(Shipped(**entry) for entry in json.loads(result.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return ()
