"""Something that may be wrong, and how many of the cases it accounts for."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from harness.signature.evidence import Answered, Evidence


@dataclass(frozen=True)
class Explanation:
    """Words, and the share of cases whose numbers they account for: of failing or conforming ones, the smaller."""

    words: str
    share: float

    @property
    def is_whole(self) -> bool:
        """Whether it accounts for all."""
        return self.share == 1.0

    def says(self, words: Collection[str]) -> bool:
        """Whether it is one of some explanations."""
        return self.words in words

    def counted(self) -> Explanation:
        """This."""
        return self


class Hypothesis:
    """What may be wrong, as it is tried on one case after the other: seldom does it take more than one.

    `explains` says whether it accounts for the answer to a case, `tells` whether the answer would be another one
    then, `told` what it is called on a case that tells.
    """

    def __init__(
        self,
        evidence: Evidence,
        explains: Callable[[Answered], bool],
        tells: Callable[[Answered], bool],
        told: Callable[[Answered], str],
    ) -> None:
        self._evidence = evidence
        self._explains, self._tells, self._told = explains, tells, told
        self._known: dict[Answered, bool] = {}

    @property
    def words(self) -> str:
        """What it is called where it explains anything."""
        assert self._first is not None, "asked of what explains something"
        return self._told(self._first)

    @property
    def is_whole(self) -> bool:
        """Whether it accounts for all cases."""
        if not self._evidence.telling:
            return False
        cases = (*self._evidence.numbers, *self._evidence.conforming)
        return all(map(self._accounts, cases)) and self._first is not None

    def says(self, words: Collection[str]) -> bool:
        """Whether it is one of some explanations."""
        return any(self._told(one) in words for one in self._evidence.telling if self._tells(one))

    def counted(self) -> Explanation | None:
        """With the share of all cases that it accounts for; None where it explains none of the telling ones."""
        return None if self._first is None else Explanation(self.words, share(self._evidence, self._accounts))

    @cached_property
    def _first(self) -> Answered | None:
        return next((one for one in self._evidence.telling if self._tells(one) and self._accounts(one)), None)

    def _accounts(self, one: Answered) -> bool:
        if one not in self._known:
            self._known[one] = self._explains(one)
        return self._known[one]


def share(evidence: Evidence, explains: Callable[[Answered], bool]) -> float:
    """The smaller of two shares: of the failing cases that are explained, and of those that conform."""
    parts = [sum(map(explains, cases)) / len(cases) for cases in (evidence.numbers, evidence.conforming) if cases]
    return min(parts, default=0.0)
