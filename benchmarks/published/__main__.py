"""Make the pages of published results: `python -m benchmarks.published library verl==0.9.1 > PAGE`, and so on.

Each page is printed. `--made FOLDER` takes a result that is there, instead of judging anew.
"""

from __future__ import annotations

import datetime
import json
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from benchmarks.published import faults as faults_page
from benchmarks.published import library as library_page
from benchmarks.published import rendered
from benchmarks.published.index import index as index_of
from harness.comparing import of_targets
from harness.provenance import version_of_lossgate
from reports.run import Run

LOSSGATE: Final = Path(sys.executable).with_name("lossgate")
FOLDER: Final = Path("reports/published")
Made = Annotated[Path | None, typer.Option(help="A result that is there.")]
Jobs = Annotated[int, typer.Option(help="Processes that judge.")]

app = typer.Typer(help=__doc__, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def library(target: str, jobs: Jobs = 2, made: Made = None) -> None:
    """The page of one target, judged in every cell."""
    asked = ["run", target]
    with _place(made) as folder:
        if made is None:
            _lossgate(*asked, "--jobs", str(jobs), "--out", str(folder), "--quiet")
        print(library_page.page(Run.load(folder), _said(asked)), end="")


@app.command()
def matrix(name: str, releases: str, jobs: Jobs = 2, made: Made = None) -> None:
    """The page of a library's releases side by side."""
    asked = ["matrix", name, releases]
    with _place(made) as folder:
        if made is None:
            _lossgate(*asked, "--jobs", str(jobs), "--out", str(folder), "--quiet")
        printed = _lossgate("matrix", "--resume", str(folder), "--format", "markdown", "--quiet")
        facts = json.loads((folder / "matrix.json").read_text(encoding="utf-8"))
        print(rendered.matrix(printed, facts, _said(asked)), end="")


@app.command()
def compare(base: str, head: str, dtype: str = "float32", jobs: Jobs = 2, made: Made = None) -> None:
    """The page of two targets compared. With `--made`, the folder of a run of both."""
    asked = ["compare", base, head, "--dtype", dtype]
    with _place(made) as folder:
        if made is None:
            _lossgate(*asked, "--jobs", str(jobs), "--out", str(folder), "--quiet")
        run = Run.load(folder)
        print(rendered.comparison(of_targets(run), run.facts, _said(asked)), end="")


@app.command()
def faults(jobs: Jobs = 2, made: Made = None) -> None:
    """The page of the seeded faults. With `--made`, a file that `lossgate faults --format json` printed."""
    asked = ["faults"]
    printed = (
        made.read_text(encoding="utf-8")
        if made
        else _lossgate(*asked, "--jobs", str(jobs), "--format", "json", "--quiet")
    )
    print(faults_page.page(json.loads(printed), _said(asked), _today(), _versions("torch")), end="")


@app.command()
def speed() -> None:
    """The page of what judging a case costs."""
    command = ["-m", "benchmarks.speed"]
    printed = _output([sys.executable, *command])
    versions = _versions("numpy", "torch", "trl")
    print(rendered.speed(printed, shlex.join(["python", *command]), _today(), versions), end="")


@app.command()
def index(folder: Path = FOLDER) -> None:
    """The index of the pages that are there."""
    print(index_of(folder), end="")


@contextmanager
def _place(made: Path | None) -> Iterator[Path]:
    if made is not None:
        yield made
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "made"


def _lossgate(*arguments: str) -> str:
    return _output([str(LOSSGATE), *arguments])


def _output(command: list[str]) -> str:
    """What it prints; a divergence that it found (exit code 1) is a result, too."""
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    # An exception that nobody caught ends with 1, too, and prints nothing.
    if result.returncode > 1 or not result.stdout:
        raise SystemExit(f"{shlex.join(command)} ended with {result.returncode}")
    return result.stdout


def _said(arguments: list[str]) -> str:
    return shlex.join(["lossgate", *arguments])


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _versions(*distributions: str) -> dict[str, Any]:
    from importlib.metadata import version

    own = {name: version(name) for name in distributions}
    return {"lossgate": version_of_lossgate(), **own, "python": platform.python_version()}


if __name__ == "__main__":
    app()
