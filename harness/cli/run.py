"""`lossgate run`: judge targets, write the run, print the table."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.cli import completing
from harness.cli.github import publish
from harness.cli.options import Device, Format, Memory, Offline, Python, Timeout
from reports.formats import FORMATS, LOG_WIDTH, ReportFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.events import Event
    from harness.report_files import ReportFile
    from reports.run import Run

EXAMPLE: Final = "Example: lossgate run trl --loss-type grpo,dapo --beta 0,0.04 --dtype float32 --seed 7"


def run(
    target: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=completing.target, help="Targets: trl, my_pkg.losses:grpo_loss, ...", show_default=False
        ),
    ] = None,
    loss_type: Annotated[
        str | None, typer.Option(autocompletion=completing.loss_types, help="Comma-separated (default: all).")
    ] = None,
    beta: Annotated[str | None, typer.Option(help="Comma-separated (default: 0,0.04).")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            autocompletion=completing.dtypes, help="Comma-separated (default: float64,float32,bfloat16)."
        ),
    ] = None,
    level: Annotated[
        str | None, typer.Option(autocompletion=completing.levels, help="token, sequence (default: both).")
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help="Drawn cases per cell, on top of the boundary cases (default: 64).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same cases (default: the profile's).")] = None,
    profile: Annotated[
        str, typer.Option(autocompletion=completing.profile, help="ci: fixed seed. nightly: fresh seed, longer.")
    ] = "ci",
    large: Annotated[
        bool | None,
        typer.Option(
            "--large/--no-large",
            help="Large batches last, up to (64, 4096) (default: the profile's; nightly has them).",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the run (default: lossgate-runs/<time>).")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Finish a run that was cut short, as it was asked for.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes that judge.")] = 1,
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    every_row: Annotated[bool, typer.Option("--all", help="Print conforming cells too.")] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML, a test per cell.")
    ] = None,
    sarif: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write SARIF 2.1.0.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with every cell's detail.")
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Also print GitHub annotations, and add a job summary.")
    ] = False,
    timings: Annotated[
        bool, typer.Option("--timings", help="Also say where the time went, on the standard error output.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration (default: lossgate.toml or pyproject.toml, if here)."),
    ] = None,
    strict_expectations: Annotated[
        bool,
        typer.Option("--strict-expectations", help="Fail where an expectation no longer holds, or expired."),
    ] = False,
    update_expectations: Annotated[
        bool,
        typer.Option("--update-expectations", help="Write what diverges into the configuration, to be reviewed."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Judge by the bare formula: no declared conventions, all padding lines."),
    ] = False,
    python: Python = None,
    device: Device = "cpu",
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Judge targets against the exact oracles: loss and gradient, per loss type, level, beta and dtype.

    Exit code: 0 all cells conform, 1 a cell fails, 2 wrong usage, 3 a target did not start, 4 nothing was
    compared or a needed region was never hit, 130 interrupted.
    """
    from harness.engine import execute
    from harness.errors import UsageError
    from harness.events import Timed
    from harness.exit_codes import ExitCode
    from harness.outcome import TargetUnavailable
    from harness.preparation import fresh, resumed
    from harness.report_files import ReportFile, distinct
    from harness.run_progress import of_run
    from reports.run import Run

    files = distinct(
        ReportFile.at(path, form)
        for form, path in ((ReportFormat.JUNIT, junit), (ReportFormat.SARIF, sarif), (ReportFormat.HTML, html))
        if path is not None
    )
    if resume is not None:
        asked = (loss_type, beta, dtype, level, examples, seed, large)
        if target or out is not None or any(option is not None for option in asked):
            raise UsageError("--resume takes targets, cells, cases and the folder from the run: leave out others")
        prepared = resumed(resume, jobs)
    else:
        prepared = fresh(
            out,
            config,
            targets=target or [],
            profile=profile,
            loss_types=loss_type,
            levels=level,
            betas=beta,
            dtypes=dtype,
            examples=examples,
            seed=seed,
            large=large,
            device=device,
            strict=strict,
            strict_expectations=strict_expectations,
            python=python,
            timeout=timeout,
            memory=memory,
            offline=offline,
            jobs=jobs,
        )
    recorder = prepared.recorder
    spent: list[str] = []
    if prepared.note:
        print(f"lossgate: {prepared.note}", file=sys.stderr)
    try:
        # Files of an earlier run must not pass for those of one that is cut short.
        _write(files, recorder.path)
    except UsageError:
        recorder.discard()
        raise
    try:
        with of_run(quiet) as progress:

            def emit(event: Event) -> None:
                recorder(event)
                progress(event)
                if isinstance(event, Timed):
                    spent.extend(event.timings.lines)

            exit_code = execute(prepared.plan, emit, prepared.earlier)
    except TargetUnavailable:
        recorder.discard()
        _write(files, recorder.path)
        raise
    try:
        _print(Run.load(recorder.path), output, every_row)
        if github:
            publish(Run.load(recorder.path), aside=output is not Format.TABLE)
        sys.stdout.flush()
    # rich ends the process where a pipe is closed.
    except (OSError, AttributeError, SystemExit) as error:
        _without_stdout(error)
    _write(files, recorder.path)
    if exit_code is ExitCode.INTERRUPTED:
        print(f"lossgate: interrupted\n  lossgate run --resume {recorder.path} finishes it", file=sys.stderr)
    for line in spent if timings else ():
        print(f"lossgate: {line}", file=sys.stderr)
    if update_expectations:
        _update(Run.load(recorder.path), prepared.plan.config)
    raise typer.Exit(int(exit_code))


def _write(files: Sequence[ReportFile], path: Path) -> None:
    """Write a run's files, unless the run was taken back because nothing was judged."""
    from reports.run import Run

    if files and (path / "run.json").exists():
        run = Run.load(path)
        for file in files:
            file.write(run)


def _update(run: Run, config: str) -> None:
    from harness.expectations.updating import update

    if not run.complete:
        print(f"lossgate: {config} is as it was: the run is not complete", file=sys.stderr)
        return
    for sentence in update(run, Path(config)).sentences:
        print(f"lossgate: {sentence}", file=sys.stderr)


def _without_stdout(error: BaseException) -> None:
    """Nobody reads what is printed: the run is on disk, and the exit code is the run's."""
    from reports.store import RunStoreError

    if isinstance(error, RunStoreError):
        raise error
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for what the interpreter flushes at its end


def _print(run: Run, output: Format, every_row: bool) -> None:
    if output is Format.TABLE:
        show_table(run, every_row)
        return
    print(FORMATS[ReportFormat(output)](run))
    print(f"run: {run.path}", file=sys.stderr)


def show_table(run: Run, every_row: bool) -> None:
    """Print the cells of a run that do not conform, or all, and where to look closer."""
    from rich.console import Console

    from reports import terminal
    from reports.expectations import as_judged
    from reports.records import Verdict
    from reports.table import cell_table

    table = as_judged(cell_table(run.rows), run.facts)
    console = Console() if sys.stdout.isatty() else Console(width=LOG_WIDTH)
    terminal.render(table, run.facts, console, show_all=every_row)
    _say_what_was_missed(run)
    failing = table[[Verdict(verdict).fails for verdict in table["verdict"]]]
    if len(failing):
        first = failing.iloc[0]
        requested, labels = run.facts["requested"], list(run.facts["targets"])
        # A case does not say which of several targets it is a case of.
        target = f" {shlex.quote(requested[labels.index(first['target'])])}" if len(requested) > 1 else ""
        print(f"look closer: lossgate explain {run.path / 'cases' / first['witness']}.json{target}")
    print(f"run: {run.path}")


def _say_what_was_missed(run: Run) -> None:
    missed: dict[str, list[str]] = {}
    for cell, regions in run.facts.get("missing_regions", {}).items() if run.complete else ():
        missed.setdefault(", ".join(regions), []).append(cell)
    for regions, cells in missed.items():
        more = f" and {len(cells) - 1} more cells" if len(cells) > 1 else ""
        print(f"not judged: {cells[0]}{more} never met {regions}")
