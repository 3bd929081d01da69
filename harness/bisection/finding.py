"""What one candidate of a bisection shows in the cell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reports.columns import Column, Result
from reports.records import Verdict

NO_SUCH_CELL: Final = "it does not have this cell"

_WORDS: Final = {
    Verdict.DIVERGES: "divergent",
    Verdict.ERROR: "raising",
    Verdict.CRASH: "crashing",
    Verdict.TIMEOUT: "late",
    Verdict.NONDETERMINISTIC: "nondeterministic",
}


@dataclass(frozen=True)
class Finding:
    """A candidate, the run it was judged in, and what became of the cell; `why_not` where nothing did."""

    name: str
    target: str
    folder: Path | None
    result: Result | None
    why_not: str = ""

    @classmethod
    def of(cls, column: Column, target: str, root: Path) -> Finding:
        """What a column of one cell says; `root` is the folder that its run lies in."""
        result = column.results[0] if column.results else None
        why_not = column.why_not or ("" if result is not None else NO_SUCH_CELL)
        return cls(column.name, target, root / column.folder if column.folder else None, result, why_not)

    @property
    def fails(self) -> bool:
        """Whether the cell is wrong there."""
        return self.result is not None and self.result.verdict.fails

    @property
    def word(self) -> str:
        """The state of the cell in one word."""
        assert self.result is not None, "asked of what was judged"
        return _WORDS.get(self.result.verdict, "clean")

    @property
    def signature(self) -> str:
        """What is wrong with the cell, or ""."""
        return self.result.signature if self.result is not None else ""

    def is_like(self, other: Finding) -> bool:
        """Whether the cell is in the same state: clean in both, or wrong in the same way."""
        if not (self.fails and other.fails):
            return self.fails == other.fails
        return (self.word, self.signature) == (other.word, other.signature)

    @property
    def look_closer(self) -> str:
        """The command that shows what is wrong, or ""."""
        if not self.fails or self.result is None or self.folder is None:
            return ""
        return f"lossgate explain {self.folder / 'cases' / self.result.witness}.json"

    def as_facts(self) -> dict[str, Any]:
        """The finding as JSON data."""
        return {
            "name": self.name,
            "target": self.target,
            "folder": str(self.folder or ""),
            "state": self.word if self.result is not None else "skipped",
            "why_not": self.why_not,
            "cell": self.result.as_facts() if self.result is not None else None,
        }
