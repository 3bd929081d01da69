"""Releases that are judged lie in a cache of this repository's own, which `make test` fills."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("LOSSGATE_CACHE", str(Path(__file__).parents[1] / ".cache" / "lossgate"))
