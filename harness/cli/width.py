"""How wide what is printed may be."""

from __future__ import annotations

import shutil
import sys
from typing import Final

from reports.formats import LOG_WIDTH

_LEAST: Final = 40


def width() -> int:
    """Columns of the terminal, or those of a log where standard output is none."""
    if not sys.stdout.isatty():
        return LOG_WIDTH
    return max(shutil.get_terminal_size((LOG_WIDTH, 0)).columns, _LEAST)
