"""`lossgate identify`: which formula does a target compute?"""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from harness.cli import completing
from harness.cli.options import Device, Memory, Offline, Python, TextFormat, Timeout

EXAMPLE: Final = "Example: lossgate identify my_pkg.losses:grpo_loss --loss-type grpo"


def identify(
    target: Annotated[
        str,
        typer.Argument(autocompletion=completing.target, help="A target, such as trl or my_pkg.losses:grpo_loss."),
    ],
    loss_type: Annotated[
        str | None,
        typer.Option(
            autocompletion=completing.loss_types, help="What to ask it for, comma-separated (default: all it has)."
        ),
    ] = None,
    level: Annotated[
        str | None, typer.Option(autocompletion=completing.levels, help="token, sequence (default: what it has).")
    ] = None,
    catalogue: Annotated[
        bool, typer.Option("--whole", help="Look among every formula there is, not the everyday ones alone.")
    ] = False,
    output: Annotated[TextFormat, typer.Option("--format", help="What to print.")] = TextFormat.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    python: Python = None,
    device: Device = "cpu",
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Ask a target a few designed cases and say which formula explains its answers within rounding.

    Exit code: 0 each loss is what its name says, or departs as lossgate.toml expects, 1 one is not, 2 wrong usage,
    3 the target did not start, 4 nothing was answered.
    """
    from harness.config import Config
    from harness.identification.json_report import as_json
    from harness.identification.report import exit_code, lines
    from harness.identification.survey import survey
    from harness.plan import Plan
    from harness.progress import shown

    config = Config.load(None)
    plan = Plan.of(
        [target],
        settings=config.settings,
        expect=config.expect,
        loss_types=loss_type,
        levels=level,
        device=device,
        python=python,
        timeout=timeout,
        memory=memory,
        offline=offline,
    )
    with shown(quiet, "losses", "starting") as gauge:
        found = survey(plan, target, catalogue, gauge)
    if output is TextFormat.JSON:
        print(json.dumps(as_json(found), indent=2))
    else:
        for line in lines(found):
            typer.echo(line)
    raise typer.Exit(int(exit_code(found)))
