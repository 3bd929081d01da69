"""The targets that packages installed here ship, by their entry points; run as a program, it prints them as JSON.

A package names them in its pyproject.toml:

    [project.entry-points."lossgate.targets"]
    its_name = "its_module:its_function"
"""

from __future__ import annotations

import importlib.metadata
import json
from typing import Any, NamedTuple

GROUP = "lossgate.targets"


class Shipped(NamedTuple):
    """A target of a package: its name on the command line, and the package with its version."""

    name: str
    package: str
    version: str
    point: Any


def shipped() -> list[Shipped]:
    """All of them, by name. A package that is found twice, and an entry that is, counts once."""
    found: dict[tuple[str, str], Shipped] = {}
    for distribution in importlib.metadata.distributions():
        for point in distribution.entry_points:
            if point.group == GROUP:
                package, version = distribution.metadata["Name"], distribution.version
                found.setdefault((point.name, package), Shipped(point.name, package, version, point))
    return [found[key] for key in sorted(found)]


if __name__ == "__main__":
    print(json.dumps([{"name": one.name, "package": one.package, "version": one.version} for one in shipped()]))
