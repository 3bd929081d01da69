"""docs/json.md has every key that verbs print as JSON, and no other."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness.faults.hunt import Fate
from reports.comparison import Change
from tests.cli.conftest import COMMAND
from tests.docs.pages import CELL, ROOT, Page

PAGE: Final = Page("docs/json.md")
CASE: Final = "cases/corpus/pinned/grpo_as_token_mean.json"
BOTH: Final = ("fault:none", "fault:grpo_as_bnpo")
PRINTED: Final = {
    "lossgate-report/1": ("run", "examples.pr_3395:loss", *CELL),
    "lossgate-comparison/1": ("compare", *BOTH, *CELL),
    "lossgate-replay/1": ("replay", CASE, "examples.pr_3395:loss"),
    # One that is caught, one that drowns, and one that padding hygiene catches.
    "lossgate-faults/1": ("faults", "--only", "no_clip,scale_1e-4,padding_times_0", "--dtype", "bfloat16", "-q"),
    "lossgate-targets/1": ("targets",),
    "lossgate-fetch/1": ("fetch", "trl==1.9.0", "--offline"),
}
"""A command for each format that the page describes."""

MAY_BE_ABSENT: Final = {"lossgate-report/1": {"cells[].message", "cells[].also"}}


def table(form: str) -> dict[str, str]:
    """The keys of the table that describes a format, with their meaning."""
    (part,) = (part for part in PAGE.text.split("\n\n") if f"| `format` | string | `{form}` |" in part)
    rows = [row.split("|")[1:-1] for row in part.splitlines()[2:]]
    return {row[0].strip().strip("`"): row[2].strip() for row in rows}


def paths(data: Any, path: str = "") -> Iterator[str]:
    """Every key in data, as the page writes it."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from paths(value, f"{path}.{key}" if path else key)
    elif isinstance(data, list) and data and isinstance(data[0], dict | str):
        for value in data:
            yield from paths(value, f"{path}[]")
    else:
        yield path


@pytest.mark.parametrize("form", PRINTED)
def test_every_key_is_described(form: str, tmp_path: Path) -> None:
    """What is printed has a row, and each row is of something that is printed."""
    verb, *arguments = PRINTED[form]
    out = ("--out", tmp_path / "run") if verb in ("run", "compare") else ()
    command = [COMMAND, verb, *arguments, *out, "--format", "json"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    data = json.loads(result.stdout)
    assert data["format"] == form
    printed, rows = set(paths(data)), table(form)
    patterns = {key: re.compile(re.escape(key).replace(r"\*", r".+")) for key in rows}
    assert {path for path in printed if not any(pattern.fullmatch(path) for pattern in patterns.values())} == set()
    unseen = {key for key, pattern in patterns.items() if not any(pattern.fullmatch(path) for path in printed)}
    # An object of which the keys below have rows is described by these.
    unseen -= {key for key in rows if any(other.startswith(f"{key}.") for other in rows)}
    assert unseen == set()


def test_every_format_is_listed() -> None:
    """In the table at the top: those that the package names, but for those of files."""
    text = "\n".join(
        path.read_text() for package in ("harness", "reports") for path in (ROOT / package).rglob("*.py")
    )
    named = set(re.findall(r'"(lossgate-\w+/\d)"', text))
    of_files = {"lossgate-run/1", "lossgate-tokens/1"}
    assert {row[1].strip("`") for row in PAGE.table("verb")} == named - of_files


def test_the_words_are_listed() -> None:
    """What became of a cell, and of a fault."""
    assert table("lossgate-comparison/1")["cells[].change"] == ", ".join(f"`{one}`" for one in Change)
    assert table("lossgate-faults/1")["faults[].dtypes.*.fate"] == ", ".join(f"`{one}`" for one in Fate)
