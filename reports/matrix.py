"""Releases of a library side by side: which are alike, what stands in a cell, what its note says."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, Final

from reports.columns import Asked, Column, Result
from reports.notation import compact
from reports.records import Verdict

SIGNS: Final[Mapping[Verdict, str]] = {
    Verdict.CONFORMS: "ok",
    Verdict.OVERFLOW: "(ok)",
    Verdict.KNOWN: "known",
    Verdict.DIVERGES: "DIV",
    Verdict.NONDETERMINISTIC: "MOVES",
    Verdict.ERROR: "ERR",
    Verdict.TIMEOUT: "LATE",
    Verdict.CRASH: "DIED",
}
ABSENT: Final = "."
NOT_JUDGED: Final = "?"
_MEANINGS: Final[Mapping[str, str]] = {
    SIGNS[Verdict.CONFORMS]: "conforms",
    SIGNS[Verdict.OVERFLOW]: "conforms, but not finite where an intermediate exceeds the dtype",
    SIGNS[Verdict.KNOWN]: "diverges as lossgate.toml says",
    SIGNS[Verdict.DIVERGES]: "diverges",
    SIGNS[Verdict.NONDETERMINISTIC]: "two answers to one case",
    SIGNS[Verdict.ERROR]: "raises",
    SIGNS[Verdict.TIMEOUT]: "no answer in time",
    SIGNS[Verdict.CRASH]: "its process dies",
    ABSENT: "the release does not have it",
    NOT_JUDGED: "not judged",
}


@dataclass(frozen=True)
class Group:
    """Consecutive releases that are alike: the same verdict and the same signature in every cell."""

    columns: tuple[Column, ...]

    @property
    def name(self) -> str:
        """Such as "1.9.0", or "0.28.0-1.9.2"."""
        first, last = self.columns[0].name, self.columns[-1].name
        return first if first == last else f"{first}-{last}"

    @property
    def why_not(self) -> str:
        """Why none of them was judged, or ""."""
        return self.columns[0].why_not

    def worst(self, asked: Asked) -> Result | None:
        """A cell of theirs, the one with the largest error / bound; None where they do not have it."""
        results = [one for column in self.columns if (one := column.result(asked)) is not None]
        return max(results, key=lambda one: -1.0 if math.isnan(one.error) else one.error, default=None)


@dataclass(frozen=True)
class Note:
    """What is wrong with some cells, and where: releases by cells."""

    number: int
    signature: str
    places: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Matrix:
    """What was judged so far; `facts` are what matrix.json says beside the releases."""

    facts: Mapping[str, Any]
    columns: tuple[Column, ...]
    complete: bool

    @property
    def title(self) -> str:
        """Such as "trl 0.17.0..1.16.0"."""
        return f"{self.facts['name']} {self.facts['range']}"

    @cached_property
    def rows(self) -> tuple[Asked, ...]:
        """Every cell that any release has, in the order in which they were asked for."""
        places = {
            name: {value: place for place, value in enumerate(self.facts[name])}
            for name in ("loss_types", "levels", "betas", "dtypes")
        }

        def place(asked: Asked) -> tuple[int, ...]:
            values = (asked.loss_type, asked.level, asked.beta, asked.dtype)
            return tuple(places[name][value] for name, value in zip(places, values, strict=True))

        return tuple(sorted({one.asked for column in self.columns for one in column.results}, key=place))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The columns, those that are alike as one."""
        return tuple(Group(tuple(alike)) for _, alike in groupby(self.columns, key=self._content))

    def _content(self, column: Column) -> tuple[Any, ...]:
        results = (column.result(asked) for asked in self.rows)
        return column.why_not, *(result and (result.verdict, result.signature) for result in results)

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """One note a signature, in the order in which the rows come to them."""
        return tuple(
            Note(number, signature, tuple(self._places(signature)))
            for number, signature in enumerate(self._signatures, 1)
        )

    @cached_property
    def _signatures(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for asked in self.rows:
            for column in self.columns:
                result = column.result(asked)
                if result is not None and result.signature:
                    found.setdefault(result.signature, len(found) + 1)
        return found

    def _places(self, signature: str) -> Iterator[tuple[str, str]]:
        places: dict[tuple[Column, ...], list[Asked]] = {}
        for asked in self.rows:
            having = tuple(column for column in self.columns if _has(column, asked, signature))
            if having:
                places.setdefault(having, []).append(asked)
        for columns, cells in places.items():
            yield self.spelled(columns), ", ".join(self._names(cells, columns))

    def _names(self, cells: Sequence[Asked], columns: Sequence[Column]) -> Iterator[str]:
        """Cells in words: a loss alone, or a loss and a level, where all that the releases have of it is meant."""
        having = {one.asked for column in columns for one in column.results}
        for loss_type, of_loss in _alike(cells, "loss_type"):
            if of_loss == [one for one in self.rows if one in having and one.loss_type == loss_type]:
                yield loss_type
                continue
            for level, of_level in _alike(of_loss, "level"):
                rows = [one for one in self.rows if one in having and one.loss_type == loss_type]
                if of_level == [one for one in rows if one.level == level]:
                    yield f"{loss_type} {level}"
                else:
                    yield from map(self.row_name, of_level)

    def spelled(self, columns: Sequence[Column]) -> str:
        """Releases in words, those that follow each other as one range."""
        numbers = [self.columns.index(column) for column in columns]
        ranges = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
        groups = (tuple(self.columns[number] for _, number in ones) for _, ones in ranges)
        return ", ".join(Group(ones).name for ones in groups)

    def row_name(self, asked: Asked) -> str:
        """A cell in words; a dtype that all have in common is left out."""
        return str(asked) if self.has_dtypes else f"{asked.loss_type} {asked.level} beta {asked.beta:g}"

    @property
    def has_dtypes(self) -> bool:
        """Whether there is more than one dtype."""
        return len(self.facts["dtypes"]) > 1

    def text(self, group: Group, asked: Asked) -> str:
        """What stands in a cell: the verdict's sign, the largest error / bound, the number of the note."""
        if group.why_not:
            return NOT_JUDGED
        result = group.worst(asked)
        if result is None:
            return ABSENT
        parts = [SIGNS[result.verdict]]
        if not math.isnan(result.error):
            parts.append(compact(result.error))
        if result.signature:
            parts.append(f"[{self._signatures[result.signature]}]")
        return " ".join(parts)

    @property
    def legend(self) -> str:
        """The signs that occur, in words."""
        used = {self.text(group, asked).split(" ")[0] for group in self.groups for asked in self.rows}
        said = [f"{sign} {words}" for sign, words in _MEANINGS.items() if sign in used]
        return f"{'; '.join(said)}; then the largest error / bound (above 1: not rounding)"

    @property
    def about(self) -> str:
        """How it was judged, in one line."""
        facts = self.facts
        judged = sum(not column.why_not for column in self.columns)
        of = "" if judged == len(facts["requested"]) else f" of {len(facts['requested'])}"
        source = " in the cache" if facts["source"] == "cache" else ""
        dtype = "" if self.has_dtypes else f"; {facts['dtypes'][0]}"
        return (
            f"judged: {judged}{of} releases{source}{dtype}; seed {facts['seed']}"
            f"; examples per cell {facts['examples']}; lossgate {facts['lossgate']}"
        )

    @property
    def summary(self) -> str:
        """One line: how many cells of how many releases fail."""
        results = [one for column in self.columns for one in column.results]
        failing = sum(one.verdict.fails for one in results)
        cells = f"{len(results):,} cell{'' if len(results) == 1 else 's'}"
        judged = sum(not column.why_not for column in self.columns)
        releases = f"{judged} release{'' if judged == 1 else 's'}"
        return f"{self.title}: {cells} of {releases}: " + (
            f"{failing:,} of them fail" if failing else "none fails"
        )


def _alike(cells: Sequence[Asked], name: str) -> Iterator[tuple[str, list[Asked]]]:
    """Consecutive cells that are alike in a field."""
    for value, ones in groupby(cells, key=lambda asked: getattr(asked, name)):
        yield value, list(ones)


def _has(column: Column, asked: Asked, signature: str) -> bool:
    result = column.result(asked)
    return result is not None and result.signature == signature
