"""README and docs tell the truth: their commands are run, what they show is what is printed."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from harness.exit_codes import ExitCode
from reports.records import Verdict
from reports.schema import documented
from tests.cli.conftest import COMMAND

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"```console\n\$ lossgate (.*)\n((?:.*\n)*?)```")
PAGES = ("README.md", "docs/pr-3395.md")
BLOCKS = [block for page in PAGES for block in BLOCK.findall((ROOT / page).read_text())]


@pytest.mark.parametrize(("command", "shown"), BLOCKS)
def test_a_page_shows_what_is_printed(command: str, shown: str, tmp_path: Path) -> None:
    """Every console block of these pages is run as it stands.

    The folder of the run may differ, and what depends on how a processor rounds: how near a cell that does not
    diverge came to its bound, and with which case. Where a block begins with "...", it shows the end.
    """
    out = ["--out", tmp_path / "out"] if command.startswith("run ") else []
    result = subprocess.run(
        [COMMAND, *shlex.split(command), *out],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    printed, meant = _comparable(result.stdout), _comparable(shown)
    if meant[0] == "...":
        meant = meant[1:]
        printed = printed[-len(meant) :]
    assert printed == meant


def _comparable(text: str) -> list[str]:
    lines = [
        line.rstrip() for line in text.splitlines() if not line.startswith(("run: ", "look closer: ", "loss_type"))
    ]
    return [line.partition(" overflow ")[0].partition(" conforms ")[0] for line in lines]


def test_the_readme_lists_every_exit_code_and_verdict() -> None:
    """The tables are those of the code."""
    for code in ExitCode:
        assert f"| {int(code)} | {code.about} |" in README
    for verdict in Verdict:
        assert f"`{verdict}`" in README


def test_the_schema_page_is_the_schema() -> None:
    """docs/run-on-disk.md holds the columns as the code has them."""
    assert documented().strip() in (ROOT / "docs" / "run-on-disk.md").read_text()


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page: str) -> None:
    """Every relative link of a page is a file of the repository."""
    path = ROOT / page
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), link
