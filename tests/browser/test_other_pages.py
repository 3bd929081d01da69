"""The pages of a comparison and of a matrix, made by the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reports.matrix_file import save
from tests.browser.conftest import Browser, Texts
from tests.browser.test_run_page import choose
from tests.cli.conftest import COMMAND
from tests.reports.test_matrix import MATRIX


def printed(page: Path, folder: Path, *arguments: str | Path) -> Path:
    """What the command prints, as a page."""
    result = subprocess.run(
        [COMMAND, *arguments, "--format", "html"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    page.write_text(result.stdout)
    return page


@pytest.mark.parametrize("dark", [False, True])
def test_a_comparison(browser: Browser, judged: Path, texts: Texts, tmp_path: Path, dark: bool) -> None:
    """It opens without complaint or request, and says what became of the cells of each target."""
    browser.show(printed(tmp_path / "page.html", judged, "compare", "run", "run"), dark=dark)
    assert (browser.complaints, browser.requests) == ([], [])
    assert texts("h1") == ["✓ no regression: 6 cells were compared"]
    assert "= Diverges as before" in texts("h3")
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert texts("td b").count("= same") == 4


def test_a_matrix(browser: Browser, texts: Texts, tmp_path: Path) -> None:
    """It opens without complaint or request, and a cell that diverges leads to what is wrong in it."""
    save(MATRIX, tmp_path / "matrix")
    browser.show(printed(tmp_path / "page.html", tmp_path, "matrix", "--resume", tmp_path / "matrix"))
    assert (browser.complaints, browser.requests) == ([], [])
    assert texts(".square.bad") == ["DIV 9e6 [1]", "DIV inf [1]", "DIV 30 [1]"]
    browser.run("document.querySelector('.square.bad a').click()")
    assert browser.run("return document.querySelector(':target').textContent").startswith("[1] loss and gradient")


def test_rows_of_a_comparison_are_filtered_and_linked(
    browser: Browser, judged: Path, texts: Texts, tmp_path: Path
) -> None:
    """What does not fit is gone; a link to a cell opens the table that it is in."""
    page = printed(tmp_path / "page.html", judged, "compare", "run", "run")
    browser.show(page, "#fault-none-logps-grpo-token-beta-0-float32-cpu")
    assert texts("tr:target td")[:3] == ["token", "0", "float32"]
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    choose(browser, "dtype", "bfloat16")
    assert len(texts("tr[data-dtype]")) == 3
    choose(browser, "change", "clean")
    assert texts("tr[data-dtype] th") == ["grpo"]
    assert texts("output") == ["1 of 6 rows"]


def test_rows_of_a_matrix_are_filtered_and_linked(browser: Browser, texts: Texts, tmp_path: Path) -> None:
    """By loss type and verdict; every cell has an address, those of the table of every release, too."""
    save(MATRIX, tmp_path / "matrix")
    page = printed(tmp_path / "page.html", tmp_path, "matrix", "--resume", tmp_path / "matrix")
    browser.show(page)
    ids = browser.run("return [...document.querySelectorAll('td.square')].map(one => one.id)")
    assert len(ids) == len(set(ids))
    assert "" not in ids
    before = len(texts("tr[data-verdict]"))
    choose(browser, "verdict", "diverges")
    assert 0 < len(texts("tr[data-verdict]")) < before
    assert all("DIV" in text for text in texts("tr[data-verdict]"))
    browser.show(page, f"#{ids[-1]}")
    assert browser.run("return document.querySelector(':target').checkVisibility()")
