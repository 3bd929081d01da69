"""One expected divergence, and the targets and cases that it covers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Self

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from harness.outcome import TargetFacts
from reports.records import Cell

CELL_KEYS: Final = ("loss_type", "level", "dtype", "beta")
"""Keys of an entry that narrow it to some cells: a value or a list; left out, all match."""

PLACEHOLDER: Final = "TODO"
"""How a reason begins that nobody has given yet."""


@dataclass(frozen=True)
class Subject:
    """A target as an entry may name it: the word it was asked for by, its label, its version or ""."""

    word: str
    label: str
    version: str = ""

    @classmethod
    def of(cls, word: str, facts: TargetFacts) -> Self:
        """The subject that a target's facts describe."""
        return cls.named(word, facts.label, facts.versions)

    @classmethod
    def named(cls, word: str, label: str, versions: Mapping[str, str]) -> Self:
        """A target with the versions that its facts list: its own comes first."""
        own = next((version for name, version in versions.items() if name != "from"), "")
        try:
            return cls(word, label, str(Version(own)))
        except InvalidVersion:
            return cls(word, label)

    def is_called(self, name: str) -> bool:
        """Whether a name means this target: its word, its label, or the beginning of that up to a blank."""
        return name in (self.word, self.label) or self.label.startswith(f"{name} ")


@dataclass(frozen=True)
class Span:
    """The allowed error / bound of the worst case of a cell, in a dtype; "" is every dtype."""

    low: float
    high: float
    dtype: str = ""


@dataclass(frozen=True)
class Expect:
    """One expected divergence; an empty tuple or text matches everything.

    * `number`, `line`: the position among the entries, from 1, and the line of the file it begins at.
    * `version`: a PEP 440 range of the target's version.
    * `region`: only cases in this region of input space.
    * `signature`: what must be found to be wrong in each cell that it covers.
    * `spans`: between which error / bound the worst case of such a cell must lie.
    * `generated`: written by `--update-expectations`, which may rewrite and remove it.
    """

    number: int
    line: int
    target: str
    reason: str
    version: str = ""
    loss_type: tuple[str, ...] = ()
    level: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    beta: tuple[float, ...] = ()
    region: str = ""
    signature: str = ""
    spans: tuple[Span, ...] = ()
    link: str = ""
    witness: str = ""
    expires: date | None = None
    generated: bool = False

    @property
    def lacks_reason(self) -> bool:
        """Whether the reason is still the placeholder."""
        return self.reason.startswith(PLACEHOLDER)

    def applies_to(self, subject: Subject) -> bool:
        """Whether a target is meant. One without a version is not, where the entry has a range of them."""
        if not subject.is_called(self.target):
            return False
        if not self.version:
            return True
        # A fork's development version lies in the range as its release would.
        return bool(subject.version) and SpecifierSet(self.version).contains(subject.version, prereleases=True)

    def includes(self, cell: Cell) -> bool:
        """Whether a cell of a target that is meant is one of the entry's."""
        return all(not getattr(self, key) or getattr(cell, key) in getattr(self, key) for key in CELL_KEYS)

    def covers(self, cell: Cell, regions: tuple[str, ...]) -> bool:
        """Whether a case of a cell, in some regions, is meant."""
        return self.includes(cell) and (not self.region or self.region in regions)

    def span(self, dtype: str) -> Span | None:
        """The allowed error / bound in a dtype; None where any is."""
        return next((span for span in self.spans if span.dtype in ("", dtype)), None)

    def as_facts(self) -> dict[str, Any]:
        """The entry as JSON data, without what is empty."""
        told = {name: value for name, value in vars(self).items() if value not in ((), "", None, False)}
        told |= {name: list(value) for name, value in told.items() if isinstance(value, tuple)}
        if self.spans:
            told["spans"] = [[as_json(span.low), as_json(span.high), span.dtype] for span in self.spans]
        if self.expires is not None:
            told["expires"] = self.expires.isoformat()
        return told

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> Self:
        """Read what `as_facts` wrote. Raises `KeyError`, `TypeError` or `ValueError` for something else."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()
        }
        if "spans" in values:
            values["spans"] = tuple(Span(float(low), float(high), dtype) for low, high, dtype in facts["spans"])
        if "expires" in values:
            values["expires"] = date.fromisoformat(facts["expires"])
        return cls(**values)


@dataclass(frozen=True)
class Expectations:
    """Entries in the order in which they are asked: those written by hand come before generated ones."""

    entries: tuple[Expect, ...] = ()

    def about(self, subject: Subject) -> Expectations:
        """Those that apply to a target."""
        return Expectations(tuple(entry for entry in self.entries if entry.applies_to(subject)))

    def find(self, cell: Cell, regions: tuple[str, ...]) -> Expect | None:
        """The first entry that covers a case of the target that these are about."""
        return next((entry for entry in self.entries if entry.covers(cell, regions)), None)

    def as_facts(self) -> list[dict[str, Any]]:
        """The entries as JSON data."""
        return [entry.as_facts() for entry in self.entries]

    @classmethod
    def from_facts(cls, facts: list[dict[str, Any]]) -> Expectations:
        """The entries in the record of a run."""
        return cls(tuple(map(Expect.from_facts, facts)))


NOTHING_EXPECTED: Final = Expectations()


def as_json(number: float) -> float | str | None:
    """A number as JSON has it: infinity is "inf", NaN is null."""
    if math.isnan(number):
        return None
    return number if math.isfinite(number) else "inf"
