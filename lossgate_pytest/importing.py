"""What the process of the tests imports, and from where; so must the process that a loss is judged in."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

_FRESH: Final = "import json, sys; print(json.dumps(sys.path[1:]))"

# pytest gives every conftest.py the same name.
_NO_MODULES_OF_A_LOSS: Final = {"__main__", "conftest"}


def project_path() -> list[str]:
    """The folders that this process imports from, but for those of every process of its interpreter."""
    fresh = subprocess.run([sys.executable, "-E", "-c", _FRESH], capture_output=True, text=True, check=True)
    anyway = {*json.loads(fresh.stdout), sysconfig.get_path("scripts")}
    # Those that PYTHONPATH cannot hold are left out, as is what is no text, as by the import system.
    own = (os.path.abspath(entry) for entry in sys.path if isinstance(entry, str) and os.pathsep not in entry)
    return [entry for entry in dict.fromkeys(own) if entry not in anyway]


def hidden_by(root: Path, target: str) -> str:
    """What a process in `root`, which looks there first, would import instead of what this one does, in words.

    Of what this process has imported, and of what the target is in; "" where there is nothing.
    """
    imported = {name for name in sys.modules if "." not in name} - _NO_MODULES_OF_A_LOSS
    for name in sorted({*imported, target.partition(":")[0].partition(".")[0]}):
        for file in (root / name / "__init__.py", root / f"{name}.py"):
            origin = _origin(name) if file.is_file() else None
            if origin is not None and not os.path.samefile(origin, file):
                return f"{file} would be imported instead of {origin}"
    return ""


def _origin(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except ValueError:
        return None
    return spec.origin if spec is not None and spec.origin and os.path.isfile(spec.origin) else None
