"""Where the time of a run went: in the targets' own code, in their processes, and in ours."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Use:
    """What the processes of one target did between their first case and their last answer, in seconds.

    * `wall`: all of that time, added up over the processes.
    * `busy`: with a case in hand: its tensors made, its inputs checked, the target called.
    * `called`: in the target's own loss and gradient.
    """

    cases: int = 0
    wall: float = 0.0
    busy: float = 0.0
    called: float = 0.0

    def __add__(self, other: Use) -> Use:
        return Use(
            self.cases + other.cases, self.wall + other.wall, self.busy + other.busy, self.called + other.called
        )

    @property
    def share(self) -> float:
        """The target's own part of `wall`; 0 where nothing was asked."""
        return self.called / self.wall if self.wall else 0.0


@dataclass(frozen=True)
class Timings:
    """Of each target, by label, what its processes did; and the parts of the run, in seconds."""

    targets: Mapping[str, Use]
    parts: Mapping[str, float]

    def as_facts(self) -> dict[str, Any]:
        """The timings as JSON data."""
        targets = {label: {**asdict(use), "share": use.share} for label, use in self.targets.items()}
        return {"targets": targets, "parts": dict(self.parts)}

    @property
    def lines(self) -> Iterator[str]:
        """The timings in words."""
        for label, use in self.targets.items():
            if use.cases:
                yield (
                    f"{label}: {use.share:.0%} of its processes' {use.wall:.1f} s in its own loss and gradient "
                    f"({use.called:.1f} s, {1000 * use.called / use.cases:.2f} ms a case), "
                    f"{(use.busy - use.called) / use.wall:.0%} around them, "
                    f"{(use.wall - use.busy) / use.wall:.0%} waiting and talking"
                )
        yield "; ".join(f"{name} {seconds:.1f} s" for name, seconds in self.parts.items())


class Stopwatch:
    """Takes the time of a run as it goes."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._targets: Mapping[str, Use] = {}
        self._last = time.monotonic()

    def lap(self, part: str) -> None:
        """Count the time since the last lap to a part."""
        now = time.monotonic()
        self._parts[part] += now - self._last
        self._last = now

    def used(self, targets: Mapping[str, Use]) -> None:
        """Note what the targets did, by label."""
        self._targets = targets

    @property
    def timings(self) -> Timings:
        """What was taken so far."""
        return Timings(self._targets, dict(self._parts))


def together(uses: Iterable[tuple[Use, ...]], labels: Iterable[str]) -> dict[str, Use]:
    """The uses of several processes' targets, added up by target."""
    return {label: sum(own, Use()) for label, own in zip(labels, zip(*uses, strict=True), strict=False)}
