"""What the cells of a report are called in links: readable, and the same from run to run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from reports.gate import Entry

LONGEST: Final = 60


def anchors(entries: Iterable[Entry]) -> list[str]:
    """A fragment for each cell, such as "trl-grpo-token-beta-0.04-float32"; numbered where two are alike."""
    taken: set[str] = set()
    found = []
    for entry in entries:
        base = anchor = f"{plain(entry.subject.word)[:LONGEST]}-{plain(entry.name)}"
        number = 2
        while anchor in taken:
            anchor, number = f"{base}-{number}", number + 1
        taken.add(anchor)
        found.append(anchor)
    return found


def plain(text: str) -> str:
    """The text as a part of a fragment."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-") or "target"
