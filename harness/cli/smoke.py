"""`lossgate smoke`: is the adapter sound?"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from harness.cli import completing
from harness.cli.options import Device, Memory, Offline, Python, Timeout

EXAMPLE: Final = "Example: lossgate smoke trl"


def smoke(
    target: Annotated[str, typer.Argument(autocompletion=completing.target, help="A target, such as trl.")],
    loss_type: Annotated[
        str | None,
        typer.Option(
            autocompletion=completing.loss_types,
            help="The loss a function without a loss_type parameter computes.",
        ),
    ] = None,
    python: Python = None,
    device: Device = "cpu",
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Three cases that a sound adapter passes whatever the implementation's faults.

    Exit code: 0 sound, 1 not, 2 wrong usage, 3 the target did not start.
    """
    from harness.config import Config
    from harness.exit_codes import ExitCode
    from harness.judging import client_for, contestant
    from harness.plan import Plan
    from harness.smoke import smoke as checks_of

    plan = Plan.of(
        [target],
        settings=Config.load(None).settings,
        loss_types=loss_type,
        device=device,
        python=python,
        timeout=timeout,
        memory=memory,
        offline=offline,
    )
    with client_for(plan, target) as client:
        one = contestant(plan, target, client)
        typer.echo(one.facts.label)
        checks = []
        for check in checks_of(one):
            checks.append(check)
            typer.echo(f"  {'ok  ' if check.passed else 'FAIL'}  {check.name}")
            if check.message:
                typer.echo(f"        {check.message}")
    sound = all(check.passed for check in checks)
    raise typer.Exit(int(ExitCode.CONFORMS if sound else ExitCode.DIVERGES))
