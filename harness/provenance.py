"""What a run was made with: versions and platform."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

_LIBRARIES: Final = ("numpy", "python-flint", "hypothesis")


def version_of_lossgate() -> str:
    """The installed version, or "unknown" when it runs from a folder that was never installed."""
    try:
        return version("lossgate")
    except PackageNotFoundError:
        return "unknown"


def provenance() -> dict[str, Any]:
    """JSON data: lossgate, python, the libraries that numbers pass through, platform, time (UTC, ISO 8601)."""
    return {
        "lossgate": version_of_lossgate(),
        "platform": platform.platform(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _LIBRARIES}},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
