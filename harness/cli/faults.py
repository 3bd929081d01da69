"""`lossgate faults`: which seeded faults do the cases catch?"""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from harness.cli import completing
from harness.cli.options import Python, TextFormat

EXAMPLE: Final = "Example: lossgate faults --only no_clip,kl_sign --dtype float32"


def faults(
    only: Annotated[
        str | None,
        typer.Option(autocompletion=completing.faults, metavar="NAME,...", help="These faults (default: all)."),
    ] = None,
    profile: Annotated[
        str, typer.Option(autocompletion=completing.profile, help="Whose cases: ci or nightly.")
    ] = "ci",
    dtype: Annotated[
        str | None,
        typer.Option(autocompletion=completing.dtypes, help="Comma-separated (default: the profile's)."),
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help="Drawn cases per cell, on top of the fixed ones (default: the profile's).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same cases (default: the profile's).")] = None,
    large: Annotated[
        bool | None,
        typer.Option(
            "--large/--no-large", help="Large batches too, and what only they show (default: the profile's)."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Faults that are tried at a time.")] = 2,
    output: Annotated[TextFormat, typer.Option("--format", help="What to print.")] = TextFormat.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    python: Python = None,
) -> None:
    """Put wrong implementations the cases of a run, each until one case catches it.

    Every fault is a formula with one deliberate mistake, and a target of its own: lossgate run fault:no_clip.

    Exit code: 0 every fault is caught, 1 one escapes or a change that does not count is taken for a fault, 2 wrong
    usage, 3 the faults do not start.
    """
    from harness.cli.width import width
    from harness.faults.progress import shown
    from harness.faults.report import as_json, lines
    from harness.faults.survey import survey
    from harness.plan import Plan

    plan = Plan.of(
        ["fault:none"],
        profile=profile,
        dtypes=dtype,
        examples=examples,
        seed=seed,
        large=large,
        python=python,
        jobs=jobs,
    )
    names = [name.strip() for name in (only or "").split(",") if name.strip()]
    with shown(quiet) as seen:
        found = survey(plan, names, seen)
    if output is TextFormat.JSON:
        print(json.dumps(as_json(found, plan), indent=2))
    else:
        for line in lines(found, plan, width()):
            typer.echo(line)
    raise typer.Exit(int(found.exit_code))
