"""The installed command, run in a folder of its own with a small loss module beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("lossgate")
EXAMPLE = Path(__file__).parents[2] / "examples" / "pr_3395.py"

Lossgate = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder: `printed.py` holds the formula of the example."""
    (tmp_path / "printed.py").write_text(EXAMPLE.read_text())
    return tmp_path


@pytest.fixture
def lossgate(folder: Path) -> Lossgate:
    """`lossgate(*arguments)` as a user types it, at a width of 100 columns and without colour."""

    def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *map(str, arguments)],
            cwd=folder,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100", **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
