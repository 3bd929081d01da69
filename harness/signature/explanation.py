"""Something that may be wrong, and how many of the cases it accounts for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.signature.evidence import Answered, Evidence


@dataclass(frozen=True)
class Explanation:
    """Words, and the share of cases whose numbers they account for: of failing or conforming ones, the smaller."""

    words: str
    share: float


def share(evidence: Evidence, explains: Callable[[Answered], bool]) -> float:
    """The smaller of two shares: of the failing cases that are explained, and of those that conform."""
    parts = [sum(map(explains, cases)) / len(cases) for cases in (evidence.numbers, evidence.conforming) if cases]
    return min(parts, default=0.0)
