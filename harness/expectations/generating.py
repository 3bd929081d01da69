"""The generated entries of a configuration after a run: what still holds, what is new, grouped by finding.

An entry is taken apart into its cells; those that the run judged are settled; the rest is put together again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import product
from typing import Final

from cases.dtypes import DTYPES
from cases.spec import Level, LossType
from harness.expectations.entry import PLACEHOLDER, Expect, Span
from harness.expectations.findings import Finding, Seen
from reports.records import Cell

WITNESSES: Final = "lossgate-witnesses"
"""The folder, beside the configuration, that keeps the witnesses of generated entries."""

NO_REASON: Final = f"{PLACEHOLDER}: say why this is expected"

_LOSS_TYPES: Final = [str(one) for one in LossType]
_LEVELS: Final = [str(one) for one in Level]
_DTYPES: Final = list(DTYPES)


@dataclass(frozen=True)
class _About:
    """What the entries of one finding have in common."""

    target: str
    version: str
    loss_type: str
    signature: str
    reason: str
    link: str = ""
    expires: date | None = None


@dataclass(frozen=True)
class _Part:
    """One cell of an entry."""

    about: _About
    level: str
    beta: float
    dtype: str
    span: Span | None
    witness: str

    @property
    def entry(self) -> Expect:
        """The part as an entry of its own, to ask what it is about."""
        return Expect(
            number=0,
            line=0,
            target=self.about.target,
            version=self.about.version,
            reason=self.about.reason,
            loss_type=(self.about.loss_type,),
            level=(self.level,),
            beta=(self.beta,),
            dtype=(self.dtype,),
        )


def is_ours(entry: Expect) -> bool:
    """Whether an entry may be rewritten: it was generated, and still names every one of its cells."""
    whole = len(entry.loss_type) == 1 and entry.level and entry.beta and entry.dtype and entry.signature
    return bool(entry.generated and whole and not entry.region)


def generated(entries: Sequence[Expect], seen: Seen) -> list[Expect]:
    """The entries that should be there after a run, sorted, from those of `entries` that are ours."""
    before = [part for entry in entries if is_ours(entry) for part in _parts(entry)]
    parts: list[_Part] = []
    settled: set[Cell] = set()
    for part in before:
        cells = _cells(part, seen)
        found = [
            (cell, seen.findings[cell])
            for cell in cells
            if cell in seen.findings and seen.findings[cell].signature == part.about.signature
        ]
        if found or not cells:
            parts.append(replace(part, span=_still(part.span, [finding for _, finding in found])))
            settled.update(cell for cell, _ in found)
    for cell, finding in seen.findings.items():
        if cell not in settled:
            parts.append(_new(cell, finding, before, seen))
    return sorted(_entries(parts), key=_order)


def _parts(entry: Expect) -> Iterator[_Part]:
    about = _About(
        entry.target,
        entry.version,
        entry.loss_type[0],
        entry.signature,
        entry.reason,
        entry.link,
        entry.expires,
    )
    for level, beta, dtype in product(entry.level, entry.beta, entry.dtype):
        span = entry.span(dtype)
        yield _Part(about, level, beta, dtype, span and replace(span, dtype=""), entry.witness)


def _cells(part: _Part, seen: Seen) -> list[Cell]:
    entry = part.entry
    return [cell for cell in seen.judged if entry.includes(cell) and entry.applies_to(seen.subjects[cell.target])]


def _still(span: Span | None, found: Sequence[Finding]) -> Span | None:
    """The range as it is, where what was found lies in it; else the range of what was found."""
    spans = [one.span() for one in found]
    if not spans or (span is not None and all(span.low <= one.worst <= span.high for one in found)):
        return span
    return _union(spans)


def _union(spans: Sequence[Span | None]) -> Span | None:
    known = [span for span in spans if span is not None]
    return Span(min(one.low for one in known), max(one.high for one in known)) if known else None


def _new(cell: Cell, finding: Finding, before: Sequence[_Part], seen: Seen) -> _Part:
    subject = seen.subjects[cell.target]
    target, version = subject.word.partition("==")[0], subject.version and f"=={subject.version}"
    about = _About(target, version, cell.loss_type, finding.signature, NO_REASON)
    # What a person has said of the finding elsewhere holds here, too.
    alike = [
        part
        for part in before
        if (part.about.target, part.about.loss_type, part.about.signature)
        == (about.target, about.loss_type, about.signature)
    ]
    same = next((part for part in alike if part.entry.applies_to(subject)), None)
    if same is not None:
        return _Part(same.about, cell.level, cell.beta, cell.dtype, finding.span(), same.witness)
    if alike:
        about = replace(about, reason=alike[0].about.reason, link=alike[0].about.link)
    witness = f"{WITNESSES}/{finding.witness}.json"
    return _Part(about, cell.level, cell.beta, cell.dtype, finding.span(), witness)


def _entries(parts: Sequence[_Part]) -> Iterator[Expect]:
    groups: defaultdict[_About, dict[tuple[str, float, str], _Part]] = defaultdict(dict)
    for part in parts:
        groups[part.about].setdefault((part.level, part.beta, part.dtype), part)
    for about, cells in groups.items():
        for levels, betas, dtypes in _rectangles(cells):
            own = [cells[place] for place in product(levels, betas, dtypes)]
            spans = [
                replace(span, dtype=dtype)
                for dtype in dtypes
                if (span := _union([part.span for part in own if part.dtype == dtype])) is not None
            ]
            if len(spans) == len(dtypes) and len({(span.low, span.high) for span in spans}) == 1:
                spans = [replace(spans[0], dtype="")]
            yield Expect(
                number=0,
                line=0,
                target=about.target,
                version=about.version,
                loss_type=(about.loss_type,),
                level=levels,
                beta=betas,
                dtype=dtypes,
                signature=about.signature,
                spans=tuple(spans),
                reason=about.reason,
                link=about.link,
                witness=next((part.witness for part in own if part.witness), ""),
                expires=about.expires,
                generated=True,
            )


def _rectangles(
    places: Iterable[tuple[str, float, str]],
) -> Iterator[tuple[tuple[str, ...], tuple[float, ...], tuple[str, ...]]]:
    """Levels, betas and dtypes whose products are exactly the places, each in one of them."""
    betas: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for level, beta, dtype in places:
        betas[level, dtype].append(beta)
    levels: defaultdict[tuple[tuple[float, ...], str], list[str]] = defaultdict(list)
    for (level, dtype), some in betas.items():
        levels[tuple(sorted(some)), dtype].append(level)
    dtypes: defaultdict[tuple[tuple[str, ...], tuple[float, ...]], list[str]] = defaultdict(list)
    for (some_betas, dtype), some_levels in levels.items():
        dtypes[tuple(sorted(some_levels, key=_LEVELS.index)), some_betas].append(dtype)
    for (together, some_betas), some_dtypes in dtypes.items():
        yield together, some_betas, tuple(sorted(some_dtypes, key=_DTYPES.index))


def _order(entry: Expect) -> tuple[object, ...]:
    return (
        entry.target,
        entry.version,
        _LOSS_TYPES.index(entry.loss_type[0]),
        entry.signature,
        [_LEVELS.index(level) for level in entry.level],
        entry.beta,
        [_DTYPES.index(dtype) for dtype in entry.dtype],
    )
