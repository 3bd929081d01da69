"""Copies of the CUDA example, as it is or with one mistake, built once and kept between runs of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "cuda_grpo"
CACHE = ROOT / ".cache" / "cuda_grpo"


def run(folder: Path, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command in a copy of the example."""
    return subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def copy_of(name: str, file: str = "", right: str = "", wrong: str = "") -> Path:
    """A copy of the example, kept between runs, in which one text of one file is another."""
    folder = CACHE / name
    for source in sorted(EXAMPLE.rglob("*")):
        if source.suffix not in (".py", ".h", ".cpp", ".cu"):
            continue
        text = source.read_text()
        if source.relative_to(EXAMPLE) == Path(file):
            assert text.count(right) == 1, right
            text = text.replace(right, wrong)
        target = folder / source.relative_to(EXAMPLE)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
    return folder


def build(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python build.py`, which leaves alone what is up to date."""
    return run(folder, sys.executable, "build.py", *options, **environment)
