"""docs/targets.md tells the truth about names and arguments."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.worker import target
from harness.worker.registry import ADAPTERS, PATTERNS, PREFIXES
from harness.worker.targets.offered import OFFERED, Argument

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "targets.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]


def row(argument: Argument) -> str:
    """The line of the page's table for an argument."""
    return f"| `{argument.name}` | {argument.about} | {', '.join(f'`{alias}`' for alias in argument.aliases)} |"


@pytest.mark.parametrize("argument", OFFERED, ids=lambda argument: argument.name)
def test_an_argument_is_described_as_it_is_offered(argument: Argument) -> None:
    """Its name, its value and its other names, in one row."""
    assert row(argument) in ROWS


def test_no_argument_is_described_that_is_not_offered() -> None:
    """The table has no other rows, and they stand in the order of the code."""
    first = ROWS.index(row(OFFERED[0]))
    assert ROWS[first : first + len(OFFERED)] == [row(argument) for argument in OFFERED]
    assert not ROWS[first + len(OFFERED)].startswith("| `vespo")


def test_every_kind_of_target_is_described() -> None:
    """The libraries, the prefixes and the patterns that a name may have."""
    for name in ADAPTERS:
        assert f"`{name}`" in PAGE
    for pattern in (*(f"{prefix}NAME" for prefix in PREFIXES), "./lib.so#ns::op"):
        assert f"`{pattern}`" in PAGE
    assert set(PATTERNS) == {"module:function", "./lib.so#ns::op"}


def test_what_a_package_is_given_is_there() -> None:
    """Every class that the page promises to an entry point is in the module that it gets; the example is shown."""
    for name in ("Target", "Support", "TensorCase", "Answer", "Unsupported", "Unavailable"):
        assert f"`{name}`" in PAGE
        assert isinstance(getattr(target, name), type)
    project = tomllib.loads((ROOT / "examples" / "plugin" / "pyproject.toml").read_text())["project"]
    ((group, points),) = project["entry-points"].items()
    for name, value in points.items():
        assert f'[project.entry-points."{group}"]\n{name} = "{value}"' in PAGE
