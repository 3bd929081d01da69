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


class TextFormat(StrEnum):
    """How the result of one question is printed."""

    TABLE = "table"
    JSON = "json"


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
