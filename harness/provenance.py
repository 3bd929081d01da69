"""What a run was made with: versions and platform."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

_LIBRARIES: Final = ("numpy", "python-flint", "hypothesis")


def version_of_lossgate() -> str:
    """The installed version, or "unknown" when it runs from a folder that was never installed."""
    try:
        return version("lossgate")
    except PackageNotFoundError:
        return "unknown"


def provenance() -> dict[str, Any]:
    """JSON data: lossgate, the libraries that numbers pass through, platform, checkout, time (UTC, ISO 8601)."""
    return {
        "lossgate": version_of_lossgate(),
        "platform": platform.platform(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
        "root": str(repository_root(Path.cwd())),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def repository_root(folder: Path) -> Path:
    """The checkout that a folder lies in, or the folder itself where it lies in none."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
