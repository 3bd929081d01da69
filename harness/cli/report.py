"""`lossgate report`: a run on disk, rendered again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from harness.cli.github import publish
from reports.formats import FORMATS, ReportFormat

EXAMPLE: Final = "Example: lossgate report lossgate-runs/20261201-063000-3f2a --format junit --output junit.xml"


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, finished or not.")],
    as_format: Annotated[
        ReportFormat, typer.Option("--format", help="What to render it as.")
    ] = ReportFormat.TABLE,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it (default: standard output).")
    ] = None,
    every_row: Annotated[
        bool, typer.Option("--all", help="In a table on standard output, conforming cells.")
    ] = False,
) -> None:
    """Render a run again: as a table, Markdown or JSON, as a page, as JUnit XML or SARIF, or for GitHub Actions.

    github prints annotations, and adds a job summary to the file that $GITHUB_STEP_SUMMARY names, if it is set.

    Exit code: 0 it was rendered, whatever the run found, 2 wrong usage or no such run.
    """
    from reports.run import Run

    if output is not None:
        from harness.report_files import ReportFile

        ReportFile.at(output, as_format).write(Run.load(run))
        return
    found = Run.load(run)
    if as_format is ReportFormat.TABLE:
        from harness.cli.run import show_table

        show_table(found, every_row)
    elif as_format is ReportFormat.GITHUB:
        publish(found)
    else:
        sys.stdout.write(FORMATS[as_format](found))
