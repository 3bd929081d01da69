"""Tools that files for CI are checked with: uv runs each in an environment of its own, as it installs lossgate."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

PATH: Final = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
"""On it, uv of this environment comes first."""

DOWNLOADS: Final = Path(__file__).parents[2] / ".cache" / "lossgate-downloads"
"""What uv has downloaded for one test run is there for the next."""

_SCHEMAS: Final = "check-jsonschema==0.39.0"
_SECURITY: Final = "zizmor==1.32.0"


def schema_errors(schema: str, file: Path) -> str:
    """What is wrong in a YAML file by a published schema, such as github-workflows; "" if nothing is."""
    return _run(_SCHEMAS, "check-jsonschema", "--builtin-schema", f"vendor.{schema}", file)


def security_findings(*files: Path) -> str:
    """What zizmor finds in workflows and actions, from medium severity on; "" if nothing."""
    return _run(_SECURITY, "zizmor", "--offline", "--no-progress", "--min-severity", "medium", *files)


def _run(package: str, *command: str | Path) -> str:
    result = subprocess.run(
        ("uv", "tool", "run", "--quiet", "--from", package, *command),
        env={**os.environ, "PATH": PATH, "UV_CACHE_DIR": str(DOWNLOADS / "uv"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{result.stdout}{result.stderr}" if result.returncode else ""
