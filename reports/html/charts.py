"""The geometry of the charts: error / bound on a logarithmic axis, the bound in its middle."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reports.notation import compact

DECADES: Final = 4
"""The axis goes from 1e-4 to 1e4; what is beyond is drawn at its ends."""

BINS: Final = 2 * DECADES * 2
WIDTH, HEIGHT, MARGIN = 340, 84, 14
INSET: Final = 34
"""What the words beside the upward axis take from the width of a scatter."""


def place(ratio: float) -> float:
    """Where an error / bound lies on the axis: 0 at its beginning, 1/2 at the bound, 1 at its end."""
    if ratio <= 0:
        return 0.0
    if math.isinf(ratio):
        return 1.0
    return min(max((math.log10(ratio) + DECADES) / (2 * DECADES), 0.0), 1.0)


@dataclass(frozen=True)
class Histogram:
    """Bars of error / bound. `within` and `beyond` are paths; `summary` says the same in words."""

    name: str
    within: str
    beyond: str
    bound: int
    summary: str

    @classmethod
    def of(cls, name: str, ratios: Sequence[float]) -> Histogram | None:
        """Of the ratios of one quantity; None where none was compared."""
        known = sorted(ratio for ratio in ratios if not math.isnan(ratio))
        if not known:
            return None
        counts = [0] * BINS
        for ratio in known:
            # What equals the bound is within it.
            middle = BINS // 2
            at = math.floor(place(ratio) * BINS)
            counts[min(at, middle - 1) if ratio <= 1 else min(max(at, middle), BINS - 1)] += 1
        inside = sum(ratio <= 1 for ratio in known)
        median, largest = compact(known[len(known) // 2]), compact(known[-1])
        beyond = f", {len(known) - inside:,} beyond" if inside < len(known) else ""
        summary = f"{inside:,} cases within the bound{beyond}; median {median}, largest {largest}"
        half = BINS // 2
        paths = _bars(counts, range(half)), _bars(counts, range(half, BINS))
        return cls(name, *paths, MARGIN + (WIDTH - 2 * MARGIN) // 2, summary)


def _bars(counts: Sequence[int], which: Iterable[int]) -> str:
    step = (WIDTH - 2 * MARGIN) / BINS
    scale = (HEIGHT - 2 * MARGIN) / max(counts)
    foot = HEIGHT - MARGIN
    parts = []
    for number in which:
        if counts[number]:
            # A single case is to be seen beside a thousand.
            tall = max(counts[number] * scale, 2)
            parts.append(f"M{MARGIN + number * step + 1:.0f} {foot}v-{tall:.0f}h{step - 2:.0f}v{tall:.0f}z")
    return "".join(parts)


@dataclass(frozen=True)
class Scatter:
    """Error / bound, upwards, against something. Dots are within the bound, crosses beyond it."""

    name: str
    within: str
    beyond: str
    low: str
    high: str
    summary: str

    @classmethod
    def of(cls, name: str, points: Iterable[tuple[float, float]], logarithmic: bool = False) -> Scatter | None:
        """Of pairs (what it is against, error / bound); None where there are none.

        `logarithmic`: the first are counts, on a logarithmic axis.
        """
        known = [(x, y) for x, y in points if math.isfinite(x) and not math.isnan(y)]
        if not known:
            return None
        low, high = min(x for x, _ in known), max(x for x, _ in known)
        scaled = (lambda x: math.log2(x + 1)) if logarithmic else float
        start, span = scaled(low), scaled(high) - scaled(low)
        marks: dict[bool, dict[str, None]] = {False: {}, True: {}}
        for x, y in known:
            across = (scaled(x) - start) / span if span else 0.5
            left = round(MARGIN + INSET + across * (WIDTH - INSET - 2 * MARGIN))
            top = round(HEIGHT - MARGIN - place(y) * (HEIGHT - 2 * MARGIN))
            is_beyond = y > 1
            mark = f"M{left - 3} {top - 3}l6 6m0-6l-6 6" if is_beyond else f"M{left} {top}h0"
            marks[is_beyond][mark] = None
        beyond = [(x, y) for x, y in known if y > 1]
        summary = f"{_cases(len(known))} {_span(known)}"
        if len(beyond) == len(known):
            summary += ", all beyond the bound"
        elif beyond:
            summary += f"; {len(beyond):,} beyond the bound, {_span(beyond)}"
        paths = "".join(marks[False]), "".join(marks[True])
        return cls(name, *paths, compact(low), compact(high), summary)


def _cases(number: int) -> str:
    return f"{number:,} case{'' if number == 1 else 's'}"


def _span(points: Sequence[tuple[float, float]]) -> str:
    low, high = compact(min(x for x, _ in points)), compact(max(x for x, _ in points))
    return f"at {low}" if low == high else f"from {low} to {high}"
