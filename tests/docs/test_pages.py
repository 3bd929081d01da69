"""Tables of the documentation are those of the code."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli import app
from harness.exit_codes import ExitCode
from harness.worker.registry import ADAPTERS, PREFIXES
from reports.records import Verdict
from reports.schema import documented
from tests.cli.conftest import COMMAND
from tests.docs.pages import CELL, ROOT, Page

README = Page("README.md")
COMMAND_LINE = Page("docs/command-line.md")
RUN_ON_DISK = Page("docs/run-on-disk.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which a cell fails."""
    out = tmp_path_factory.mktemp("runs") / "run"
    command = [str(COMMAND), "run", "examples.pr_3395:loss", *CELL, "--out", str(out)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 1
    return out


@pytest.fixture(scope="module")
def described(folder: Path) -> dict[str, Any]:
    """Its run.json."""
    facts: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return facts


def test_every_verb_has_a_row() -> None:
    """And a word that is none has not."""
    group: Any = typer.main.get_command(app)
    listed = {row[0].strip("`").split()[1] for row in COMMAND_LINE.table("verb")}
    assert listed == set(group.commands)


def test_every_exit_code_has_a_row() -> None:
    """In the words of the code."""
    assert [row[:2] for row in COMMAND_LINE.table("exit code")] == [[str(int(one)), one.about] for one in ExitCode]


def test_every_verdict_has_a_row() -> None:
    """Each once."""
    listed = [name for row in COMMAND_LINE.table("verdict") for name in row[0].replace("`", "").split(", ")]
    assert sorted(listed) == sorted(Verdict)


def test_every_kind_of_target_has_a_row() -> None:
    """The libraries by their names."""
    names = " ".join(row[0] for row in COMMAND_LINE.table("name"))
    assert all(f"`{name}`" in names for name in ADAPTERS)
    assert all(f"`{prefix}NAME`" in names for prefix in PREFIXES)


def test_the_row_that_is_explained_is_that_of_the_example() -> None:
    """docs/command-line.md reads a row of the README."""
    (row,) = (block for block in COMMAND_LINE.blocks if block.language == "text")
    assert row.text in README.text


def test_the_schema_page_is_the_schema() -> None:
    """docs/run-on-disk.md holds the columns as the code has them."""
    assert documented().strip() in RUN_ON_DISK.text


def test_every_fact_of_a_run_has_a_row(described: dict[str, Any]) -> None:
    """The keys of run.json, in the section on it."""
    assert {name for row in _table("## `run.json`") for name in _keys(row)} == set(described)


def test_every_fact_of_a_target_has_a_row(described: dict[str, Any]) -> None:
    """The keys of each entry of `targets`."""
    (facts,) = described["targets"].values()
    assert {name for row in _table("### A target") for name in _keys(row)} == set(facts)


def test_every_file_of_a_run_is_told(folder: Path) -> None:
    """The folders that a run writes are in the picture at the top of the page."""
    (picture,) = (block for block in RUN_ON_DISK.blocks if block.language == "text")
    for path in folder.iterdir():
        if not path.name.startswith("."):
            assert f"  {path.name}" in picture.text


def _table(heading: str) -> list[str]:
    """The rows of the table that stands under a heading."""
    return RUN_ON_DISK.text.partition(f"{heading}\n\n")[2].partition("\n\n")[0].splitlines()[2:]


def _keys(row: str) -> list[str]:
    return row.split("|")[1].replace("`", "").strip().split(", ")
