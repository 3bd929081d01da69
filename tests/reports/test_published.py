"""The pages of published results, and the command that makes them."""

from __future__ import annotations

import datetime
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from benchmarks.published.head import Head
from benchmarks.published.index import NAME, index

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "reports" / "published"
PAGES: Final = sorted(path.name for path in FOLDER.iterdir() if path.is_file() and path.name != NAME)


def test_the_index_is_the_one_of_the_pages() -> None:
    """It names every file in the folder, with what the page says of itself."""
    written = (FOLDER / NAME).read_text(encoding="utf-8")
    assert written == index(FOLDER)
    assert sorted(re.findall(r"\]\(([\w.-]+)\)", written)) == PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_when_with_what_and_how_it_was_made(name: str) -> None:
    """Date, versions and a command that there is, for the index and for readers alike."""
    page = (FOLDER / name).read_text(encoding="utf-8")
    head = Head.read(page)
    assert datetime.date.fromisoformat(head.date).year >= 2026
    assert {"lossgate", "python"} <= head.versions.keys()
    for line in (f"* date: {head.date}", f"* made again by: `{head.command}`"):
        assert line in page.splitlines()
    program, *arguments = shlex.split(head.command)
    if program == "lossgate":
        command = [str(Path(sys.executable).with_name("lossgate")), arguments[0], "--help"]
    else:
        command = [sys.executable, "-c", f"import importlib.util as u; assert u.find_spec({arguments[1]!r})"]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    # Another machine has other folders.
    assert str(ROOT) not in page
    assert tempfile.gettempdir() not in page


def test_make_publish_makes_every_page() -> None:
    """A line for each, the index last."""
    printed = subprocess.run(
        ["make", "-n", "publish"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    made = re.findall(r"> reports/published/(\S+)$", printed, re.MULTILINE)
    assert sorted(made) == sorted([*PAGES, NAME])
    assert made[-1] == NAME


def test_the_page_of_a_run(tmp_path: Path) -> None:
    """It has the verdicts, a row a loss, and what differs with its witness; its head can be read back."""
    run = tmp_path / "run"
    judged = [
        "run",
        "fault:no_clip",
        "--loss-type",
        "grpo",
        "--level",
        "token",
        "--dtype",
        "float32",
        "--beta",
        "0",
    ]
    lossgate = Path(sys.executable).with_name("lossgate")
    told = subprocess.run(
        [lossgate, *judged, "--examples", "1", "--quiet", "--out", run],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert told.returncode == 1, told.stderr
    made = [sys.executable, "-m", "benchmarks.published", "library", "fault:no_clip", "--made", str(run)]
    page = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    head = Head.read(page)
    assert (head.title, head.command) == ("fault:no_clip", "lossgate run fault:no_clip")
    assert "1 cell" in head.result
    assert re.search(r"^\| diverges \| 1 \| \d+ \|$", page, re.MULTILINE)
    assert re.search(r"^\| grpo \| token \| 0 \| diverges \S+ \|$", page, re.MULTILINE)
    (witness,) = re.findall(r"surrogate without a clip \| `(\w{12})` \|", page)
    assert (run / "cases" / f"{witness}.json").exists()


def test_a_page_without_a_head_is_refused(tmp_path: Path) -> None:
    """The index does not pass over a page that says nothing of itself."""
    (tmp_path / "by_hand.md").write_text("# Results\n")
    with pytest.raises(ValueError, match=r"by_hand\.md: the page does not say when"):
        index(tmp_path)
