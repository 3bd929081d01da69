"""`lossgate replay`: a stored case again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from harness.cli import completing
from harness.cli.options import Device, Memory, Offline, Python, TextFormat, Timeout

EXAMPLE: Final = "Example: lossgate replay lossgate-runs/20260101-120000-ab12/cases/3f2a91c7d504.json trl"


def replay(
    case: Annotated[str, typer.Argument(help="A case file, or the id of a case in lossgate-runs.")],
    target: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.target, help="A target (default: the one whose run the case lies in)."
        ),
    ] = None,
    output: Annotated[TextFormat, typer.Option("--format", help="What to print.")] = TextFormat.TABLE,
    python: Python = None,
    device: Device = "cpu",
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Judge one stored case again: does it conform, does it still diverge, or does it fail otherwise?

    Exit code: 0 conforms, 1 fails, 2 wrong usage or no such case, 3 the target did not start, 4 unsupported.
    """
    from harness.exit_codes import ExitCode
    from harness.replay import find, plan_for, replayed

    path = find(case, Path("lossgate-runs"))
    plan = plan_for(path, target, device=device, python=python, timeout=timeout, memory=memory, offline=offline)
    result = replayed(path, plan.targets[0], plan)
    if output is TextFormat.JSON:
        print(json.dumps(result.as_json(), indent=2))
    else:
        for line in result.lines():
            typer.echo(line)
    raise typer.Exit(int(ExitCode(result.exit_code)))
