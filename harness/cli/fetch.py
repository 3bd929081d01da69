"""`lossgate fetch`: releases into the cache, ahead of time."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Final

import typer

from harness.cli.options import Offline, Python, TextFormat

EXAMPLE: Final = "Example: lossgate fetch trl==1.9.0 liger==0.8.0"


def fetch(
    release: Annotated[
        list[str], typer.Argument(metavar="NAME==VERSION...", help="Releases, such as trl==1.9.0.")
    ],
    output: Annotated[TextFormat, typer.Option("--format", help="What to print.")] = TextFormat.TABLE,
    python: Python = None,
    offline: Offline = False,
) -> None:
    """Fetch releases, with what they need over an interpreter, so that later runs need no network.

    Exit code: 0 all are in the cache, 2 wrong usage or no such release, 3 one could not be fetched.
    """
    from harness.releases.overlay import laid_over
    from harness.releases.release import Release

    interpreter = str(python) if python is not None else sys.executable
    # Every name is read before the first is fetched.
    releases = [Release.named(name) for name in release]
    overlays = [(one, laid_over(one, interpreter, offline)) for one in releases]
    if output is TextFormat.JSON:
        entries = [
            {"name": one.target, "path": [str(folder) for folder in overlay.folders]} for one, overlay in overlays
        ]
        print(json.dumps({"format": "lossgate-fetch/1", "releases": entries}, indent=2))
        return
    for one, overlay in overlays:
        typer.echo(one.target)
        for layer in overlay.layers:
            typer.echo(f"  {layer!s:<28}{layer.folder}")
