"""`lossgate explain`: a stored case, token by token."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from harness.cli import completing
from harness.cli.options import Device, Memory, Offline, Python, Timeout

EXAMPLE: Final = "Example: lossgate explain 3f2a91c7d504 trl"


def explain(
    case: Annotated[str, typer.Argument(help="A case file, or the id of a case in lossgate-runs.")],
    target: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.target, help="A target (default: the one whose run the case lies in)."
        ),
    ] = None,
    alone: Annotated[bool, typer.Option("--formula", help="Ask no target: show what the formula gives.")] = False,
    python: Python = None,
    device: Device = "cpu",
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Show where the loss of a case comes from, and what is wrong with a target's answer to it.

    Exit code: 0 conforms, 1 fails, 2 wrong usage or no such case, 3 the target did not start, 4 unsupported.
    """
    from harness.exit_codes import ExitCode
    from harness.explanation import expected, explanation
    from harness.replay import find, plan_for, replayed, stored_case

    path = find(case, Path("lossgate-runs"))
    if alone:
        for line in expected(stored_case(path)):
            typer.echo(line)
        raise typer.Exit(int(ExitCode.CONFORMS))
    plan = plan_for(path, target, device=device, python=python, timeout=timeout, memory=memory, offline=offline)
    result = replayed(path, plan.targets[0], plan)
    for line in explanation(result, path):
        typer.echo(line)
    raise typer.Exit(int(ExitCode(result.exit_code)))
