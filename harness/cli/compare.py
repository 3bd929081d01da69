"""`lossgate compare`: what became better or worse from one run, or one release, to another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.cli import completing
from harness.cli.options import Device, Format, Memory, Offline, Python, Timeout

if TYPE_CHECKING:
    from reports.comparison import Comparison
    from reports.run import Run

EXAMPLE: Final = "Example: lossgate compare trl==1.9.0 trl==1.16.0 --dtype float32 --jobs 2"


def compare(
    base: Annotated[str, typer.Argument(autocompletion=completing.target, help="Folder of a run, or a target.")],
    head: Annotated[
        str, typer.Argument(autocompletion=completing.target, help="The same kind of thing, later or changed.")
    ],
    profile: Annotated[
        str, typer.Option(autocompletion=completing.profile, help="Of two targets: ci or nightly.")
    ] = "ci",
    loss_type: Annotated[
        str | None, typer.Option(autocompletion=completing.loss_types, help="Comma-separated (default: all).")
    ] = None,
    beta: Annotated[str | None, typer.Option(help="Comma-separated (default: the profile's).")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(autocompletion=completing.dtypes, help="Comma-separated (default: the profile's)."),
    ] = None,
    level: Annotated[
        str | None, typer.Option(autocompletion=completing.levels, help="token, sequence (default: both).")
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(help="Drawn cases per cell, beside the boundary cases (default: the profile's)."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same cases (default: the profile's).")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Of two targets: folder for their run.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Processes that judge.")] = 1,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare runs of other cases: those that both have.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Configuration (default: lossgate.toml or pyproject.toml, if here)."),
    ] = None,
    device: Device = "cpu",
    python: Python = None,
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Compare two runs, or two targets judged now on the same cases: what is new, fixed, worse, better.

    Cases are aligned by their content. A divergence that the configuration expects is no regression.

    Exit code: 0 no regression, 1 a cell does worse, 2 wrong usage or runs that cannot be compared, 3 a target does
    not start, 4 both sides have no case in common.
    """
    from harness.comparing import is_run, of_runs, of_targets
    from harness.errors import UsageError

    if is_run(base) != is_run(head):
        run, other = (base, head) if is_run(base) else (head, base)
        raise UsageError(f"{run} is a run, {other} is none", "give two runs, or two targets")
    if is_run(base):
        found = of_runs(Path(base), Path(head), anyway)
    else:
        options: dict[str, Any] = {
            "profile": profile,
            "loss_types": loss_type,
            "levels": level,
            "betas": beta,
            "dtypes": dtype,
            "examples": examples,
            "seed": seed,
            "device": device,
            "python": python,
            "timeout": timeout,
            "memory": memory,
            "offline": offline,
            "jobs": jobs,
        }
        found = [of_targets(_judged_now(base, head, out, config, quiet, options))]
    _print(found, output)
    raise typer.Exit(_exit_code(found))


def _judged_now(
    base: str, head: str, out: Path | None, config: Path | None, quiet: bool, options: dict[str, Any]
) -> Run:
    from harness.engine import execute
    from harness.errors import UsageError
    from harness.events import Event
    from harness.outcome import TargetUnavailable
    from harness.preparation import fresh
    from harness.run_progress import of_run
    from reports.run import Run

    if base == head:
        raise UsageError(f"{base} is on both sides", "give two runs, or two targets")
    prepared = fresh(out, config, [base, head], **options)
    try:
        with of_run(quiet) as progress:

            def emit(event: Event) -> None:
                prepared.recorder(event)
                progress(event)

            execute(prepared.plan, emit, prepared.earlier)
    except TargetUnavailable:
        prepared.recorder.discard()
        raise
    run = Run.load(prepared.recorder.path)
    if not run.complete:
        raise KeyboardInterrupt
    print(f"run: {run.path}", file=sys.stderr)
    return run


def _print(found: list[Comparison], output: Format) -> None:
    from reports.comparison_formats import as_json, markdown, text

    if output is Format.HTML:
        from reports.html.comparison import render

        print(render(found), end="")
        return
    for comparison in found:
        if output is Format.JSON:
            print(as_json(comparison))
            continue
        for line in (text if output is Format.TABLE else markdown)(comparison):
            print(line)


def _exit_code(found: list[Comparison]) -> int:
    from harness.exit_codes import ExitCode

    if any(comparison.regressions for comparison in found):
        return int(ExitCode.DIVERGES)
    if not any(comparison.shared for comparison in found):
        return int(ExitCode.INCOMPARABLE)
    return int(ExitCode.CONFORMS)
