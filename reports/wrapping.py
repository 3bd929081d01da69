"""Text in lines that are not too long."""

from __future__ import annotations

import textwrap


def wrapped(text: str, width: int, start: str = "", indent: str | None = None) -> list[str]:
    """The text after `start` in lines of at most `width` columns, the later ones behind `indent`.

    Without `indent` they stand below the beginning of the text. A word that is longer, such as a path, is whole.
    """
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start) if indent is None else indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines or [start.rstrip()]
