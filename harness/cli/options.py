"""Options that several verbs take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Python = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Interpreter in which the target is installed (default: this one)."),
]
Device = Annotated[str, typer.Option(help="Torch device to compute on.")]
Timeout = Annotated[float, typer.Option(help="Seconds that one case may take.")]

Memory = Annotated[float, typer.Option(metavar="GB", help="Gigabytes that a target on the CPU may allocate.")]
Offline = Annotated[
    bool, typer.Option("--offline", help="Fetch nothing: releases such as trl==1.9.0 must be in the cache.")
]


class TextFormat(StrEnum):
    """How the result of one question is printed."""

    TABLE = "table"
    JSON = "json"


class ParityFormat(StrEnum):
    """How a parity check is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    JSON = "json"


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"
