"""The index: written from what the pages say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.published.faults import SECTION as FAULTS
from benchmarks.published.head import FAIR, Head, grid
from benchmarks.published.library import SECTION as LIBRARIES
from benchmarks.published.rendered import RELEASES, SPEED
from reports.markdown import escape

NAME: Final = "README.md"
SECTIONS: Final = (LIBRARIES, RELEASES, FAULTS, SPEED)


def index(folder: Path) -> str:
    """The index of the pages in a folder. Raises `ValueError` for a page without a head."""
    return "\n".join(_lines(folder)) + "\n"


def _lines(folder: Path) -> Iterator[str]:
    heads: dict[str, Head] = {}
    for path in sorted(folder.glob("*.md")):
        if path.name != NAME:
            try:
                heads[path.name] = Head.read(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
    yield "# Published results"
    yield ""
    yield "`make publish` makes every page again, and this index from what the pages say of themselves."
    yield ""
    yield FAIR
    for section in SECTIONS:
        own = {name: head for name, head in heads.items() if head.section == section}
        if own:
            yield f"## {section}"
            yield ""
            yield from grid(
                ["page", "result", "date", "versions", "command"],
                [
                    [
                        f"[{escape(head.title)}]({name})",
                        escape(head.result),
                        head.date,
                        escape(head.version_list),
                        f"`{head.command}`",
                    ]
                    for name, head in own.items()
                ],
            )
