"""`lossgate targets`: what can be tested here, and what each supports."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from harness.cli.options import Python, TextFormat
from harness.cli.width import width
from reports.wrapping import wrapped

EXAMPLE: Final = "Example: lossgate targets --python ../fork/.venv/bin/python"


def targets(
    python: Python = None,
    output: Annotated[TextFormat, typer.Option("--format", help="What to print.")] = TextFormat.TABLE,
) -> None:
    """List the targets, what each supports, and whether it loads here.

    Exit code: 0, or 2 for wrong usage.
    """
    from harness.listing import listing

    entries = listing(str(python) if python is not None else None)
    if output is TextFormat.JSON:
        print(json.dumps({"format": "lossgate-targets/1", "targets": list(entries)}, indent=2))
        return
    columns = width()
    for entry in entries:
        for text, start in ((entry["about"], f"{entry['name']:<17} "), *((text, "") for text in _details(entry))):
            for line in wrapped(text, columns, f"{start:<18}"):
                typer.echo(line)


def _details(entry: dict[str, Any]) -> list[str]:
    if not entry["checked"]:
        return []
    if not entry["loads"]:
        return [f"does not load here: {entry['why_not']}"] + ([entry["hint"]] if entry["hint"] else [])
    supports = entry["supports"]
    return [
        f"loads here: {entry['label']}",
        f"loss types {', '.join(supports['loss_types'])}; levels {', '.join(supports['levels'])}",
        f"dtypes {', '.join(supports['dtypes'])}; options {', '.join(supports['options'])}",
    ]
