"""The `lossgate` command's way in: only what was installed with it answers to the names of its packages.

A project under test may have a `cases`, `harness`, `oracles` or `reports` of its own in the current folder or on
PYTHONPATH. What is here runs before any of them can be imported, in the command and in every process that it
judges in; the processes of targets still find the project's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import NoReturn

_PACKAGES = ("cases", "harness", "oracles", "reports")
_HERE = os.path.dirname(os.path.abspath(__file__))


class _OurPackages:
    """Finds them beside this file, wherever else there is one of that name."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [_HERE]) if name in _PACKAGES else None


def _find_ours_first() -> None:
    try:
        here = os.getcwd()
    except FileNotFoundError:
        print("lossgate: the current folder is gone; change into one that is there", file=sys.stderr)
        sys.exit(2)
    sys.meta_path.insert(0, _OurPackages)
    # Other modules of the project may have the name of one that is installed, too: they come last.
    named = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", here).split(os.pathsep)} | {here}
    sys.path[:] = sorted(filter(None, sys.path), key=lambda entry: entry in named)


_find_ours_first()


def main() -> NoReturn:
    """Run the command."""
    from harness.cli import main as run

    run()
