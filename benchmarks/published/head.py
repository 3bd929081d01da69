"""The head of a page: when, with which versions and by which command it was made, for readers and the index."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Self

from reports.markdown import escape

_MARK: Final = re.compile(r"^<!-- published: (.*) -->$", re.MULTILINE)

FAIR: Final = """\
A cell that diverges, or is known to, differs from the formula under the conventions that its target declares;
that may be a choice. More is told in [known divergences](../../docs/known-divergences.md), in
[how it decides](../../docs/how-it-decides.md) and in the [corpus](../../docs/corpus.md). Nothing here is a
ranking.
"""
"""How what diverges is to be read."""


@dataclass(frozen=True)
class Head:
    """What a page says of itself. `result` is one sentence, `section` its heading in the index."""

    section: str
    title: str
    date: str
    command: str
    versions: Mapping[str, str]
    result: str

    @property
    def version_list(self) -> str:
        """Such as "lossgate 0.1.0, trl 1.16.0"."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())

    def lines(self) -> Iterator[str]:
        """The head as Markdown; the comment in it is what `read` reads."""
        yield f"# {escape(self.title)}"
        yield ""
        yield f"<!-- published: {json.dumps(asdict(self))} -->"
        yield ""
        yield escape(self.result)
        yield ""
        yield f"* date: {self.date}"
        yield f"* versions: {escape(self.version_list)}"
        yield f"* made again by: `{self.command}`"
        yield ""

    @classmethod
    def read(cls, page: str) -> Self:
        """The head of a page. Raises `ValueError` when it has none."""
        found = _MARK.search(page)
        if found is None:
            raise ValueError("the page does not say when and by which command it was made")
        return cls(**json.loads(found[1]))


def grid(header: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A table of cells that are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""
