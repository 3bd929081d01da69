"""`lossgate matrix`: a library's releases side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.cli import completing
from harness.cli.options import Format, Memory, Offline, Python, Timeout

if TYPE_CHECKING:
    from reports.matrix import Matrix

EXAMPLE: Final = "Example: lossgate matrix trl 1.8.0..1.10.0 --loss-type dapo,luspo --jobs 2"


def matrix(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=completing.library, help="A library: trl, liger, verl, openrlhf, unsloth."),
    ] = None,
    releases: Annotated[
        str | None,
        typer.Argument(metavar="[A..B]", help="Its releases from A to B, both in it; A.. takes all from A on."),
    ] = None,
    loss_type: Annotated[
        str | None, typer.Option(autocompletion=completing.loss_types, help="Comma-separated (default: all).")
    ] = None,
    beta: Annotated[str | None, typer.Option(help="Comma-separated (default: 0,0.04).")] = None,
    dtype: Annotated[
        str | None, typer.Option(autocompletion=completing.dtypes, help="Comma-separated (default: float32).")
    ] = None,
    level: Annotated[
        str | None, typer.Option(autocompletion=completing.levels, help="token, sequence (default: both).")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help="Drawn cases per cell, on top of the boundary cases (default: 16).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same cases (default: 0).")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the matrix (default: lossgate-runs/<time>).")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Finish a matrix that was cut short; print one that is complete."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Releases that are judged at a time.")] = 1,
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Judge by the bare formula: no declared conventions, all padding lines."),
    ] = False,
    python: Python = None,
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Judge every release of a library on the same cases, and show them side by side.

    One column a release, one row a loss type, level and beta; what diverges has its signature below. The folder of
    a matrix holds one run a release, for lossgate explain and others.

    Exit code: 0 whatever was found, 2 wrong usage or no such release, 3 no release started, 4 nothing was
    compared, 130 interrupted.
    """
    from harness.config import Config
    from harness.errors import UsageError
    from harness.matrix.matrix import begun, completed, exit_code, how_to_go_on, resumed
    from harness.matrix.progress import shown
    from harness.plan import Plan
    from harness.preparation import RUNS
    from harness.recording import fresh_folder
    from harness.releases.span import Span

    if resume is not None:
        asked = (name, out, loss_type, level, beta, dtype, examples, seed, python)
        if any(option is not None for option in asked) or strict:
            raise UsageError("--resume takes releases, cells and the folder from the matrix: leave out others")
        folder, begin = resume, resumed(resume, offline)
    else:
        if name is None or releases is None:
            raise UsageError("no releases given", "takes a library and a range, such as trl 1.8.0..1.10.0")
        span = Span.of(name, releases)
        settings = Config.load(None).settings
        options: dict[str, Any] = {
            "loss_types": loss_type,
            "levels": level,
            "betas": beta,
            "dtypes": dtype or "float32",
            "examples": 16 if examples is None else examples,
            "seed": seed or 0,
            "settings": settings,
            "strict": strict,
            "python": python,
            "timeout": timeout,
            "memory": memory,
            "offline": offline,
            "jobs": jobs,
        }
        # What is wrong with an option is said before an index is asked.
        interpreter = Plan.of([name], **options).python
        listed = span.releases(interpreter, offline)
        plan = Plan.of([release.target for release in listed], **options)
        folder = out if out is not None else fresh_folder(RUNS)
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty", "give a folder that is new or empty")
        begin = begun(span, releases, listed, plan)
    try:
        with shown(quiet) as seen:
            found = completed(begin, folder, jobs, seen)
    except KeyboardInterrupt:
        print(f"lossgate: interrupted\n  {how_to_go_on(folder)}", file=sys.stderr)
        raise typer.Exit(130) from None
    _print(found, folder, output)
    raise typer.Exit(int(exit_code(found)))


def _print(found: Matrix, folder: Path, output: Format) -> None:
    from rich.console import Console

    from reports.formats import LOG_WIDTH
    from reports.html.matrix import render
    from reports.matrix_file import as_json
    from reports.matrix_formats import markdown, print_table

    if output is Format.TABLE:
        print_table(found, Console() if sys.stdout.isatty() else Console(width=LOG_WIDTH))
        print(f"matrix: {folder}")
        return
    print({Format.JSON: as_json, Format.MARKDOWN: markdown, Format.HTML: render}[output](found), end="")
    print(f"matrix: {folder}", file=sys.stderr)
