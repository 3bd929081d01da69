"""`lossgate reproduce`: a stored case as a script that needs nothing of lossgate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from harness.cli import completing
from harness.cli.options import Device, Memory, Offline, Python, Timeout

EXAMPLE: Final = "Example: lossgate reproduce 3f2a91c7d504 trl==1.9.0 --out reproducer.py"


def reproduce(
    case: Annotated[str, typer.Argument(help="A case file, or the id of a case in lossgate-runs.")],
    target: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completing.target, help="A target (default: the one whose run the case lies in)."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there (default: print it).")
    ] = None,
    python: Python = None,
    device: Device = "cpu",
    timeout: Timeout = 60.0,
    memory: Memory = 16.0,
    offline: Offline = False,
) -> None:
    """Write a failing case as one Python file that needs torch and the target only, to paste into an issue.

    Exit code: 0 written, 2 wrong usage, no such case or nothing to reproduce, 3 the target did not start.
    """
    from harness.errors import UsageError
    from harness.replay import find, plan_for
    from harness.reproducer.finding import NoScript
    from harness.reproducer.script import script
    from harness.reproducer.stored import finding_in

    path = find(case, Path("lossgate-runs"))
    plan = plan_for(path, target, device=device, python=python, timeout=timeout, memory=memory, offline=offline)
    try:
        text = script(finding_in(path, plan.targets[0], plan))
    except NoScript as reason:
        raise UsageError(f"no script: {reason}") from None
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror or error}") from error
