"""What a parity check found, as values: executions, cells, pairs, findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from reports.records import Verdict


class PairVerdict(StrEnum):
    """What the oracle says of two executions in one cell; `about` is the sentence a user sees."""

    EQUAL = "equal"
    REFERENCE_OUTSIDE = "reference outside"
    OTHER_OUTSIDE = "outside"
    BOTH_OUTSIDE = "both outside"
    KNOWN = "known"
    NOT_COMPARED = "not compared"

    @property
    def about(self) -> str:
        """What it means, as one sentence."""
        return _ABOUT[self]


_ABOUT: Final = {
    PairVerdict.EQUAL: "Both are within the bound: equal as far as rounding can tell.",
    PairVerdict.REFERENCE_OUTSIDE: "The reference alone is outside the bound, or gave no answer.",
    PairVerdict.OTHER_OUTSIDE: "This execution alone is outside the bound, or gave no answer.",
    PairVerdict.BOTH_OUTSIDE: "Both are outside: a fault that is not about the device or the compiler.",
    PairVerdict.KNOWN: "Nothing is outside but what an expectation says.",
    PairVerdict.NOT_COMPARED: "One of the two did not take the cell.",
}


@dataclass(frozen=True)
class Apart:
    """How far two executions are apart over the `cases` that both answered with numbers.

    `same_bits` counts cases in which every bit is the same. `loss_ulps`, `gradient_ulps`: the largest distance, in
    spacings of the dtype at the exact value; for the gradient, at the element where it is largest as a part of the
    bound; infinite where only one of the two is a finite number. Both are NaN where there are no cases.
    """

    cases: int
    same_bits: int
    loss_ulps: float
    gradient_ulps: float

    @classmethod
    def over(cls, parts: Sequence[Apart]) -> Apart:
        """That of several cells together."""

        def largest(values: list[float]) -> float:
            return max((value for value in values if not math.isnan(value)), default=math.nan)

        return cls(
            cases=sum(one.cases for one in parts),
            same_bits=sum(one.same_bits for one in parts),
            loss_ulps=largest([one.loss_ulps for one in parts]),
            gradient_ulps=largest([one.gradient_ulps for one in parts]),
        )


@dataclass(frozen=True)
class Repeated:
    """Whether an execution gives the same answer again: in another order, and in a fresh process.

    `answers` were repeated, `same_bits` of them to the bit; `beyond` counts cases that moved by more than rounding
    allows.
    """

    answers: int
    same_bits: int
    beyond: int

    @property
    def words(self) -> str:
        """In a few words."""
        if self.beyond:
            return f"nondeterministic: {self.beyond:,} cases differ by more than rounding allows"
        if not self.answers:
            return "not repeated"
        if self.same_bits == self.answers:
            return "same bits again"
        return f"differs within rounding ({self.answers - self.same_bits:,} of {self.answers:,} answers)"


@dataclass(frozen=True)
class Compiled:
    """What ran of what was compiled: in how many cases a compiled graph ran, and in how many none did."""

    graphs: int
    operations: int
    with_graphs: int
    without: int

    @property
    def words(self) -> str:
        """In a few words."""
        if not self.with_graphs:
            return "nothing was compiled: this is eager"
        said = f"{self.graphs:,} graphs of {self.operations:,} operations compiled"
        return f"{said}; {self.without:,} cases ran eagerly" if self.without else said


@dataclass(frozen=True)
class ExecutionFacts:
    """One execution: what it is, why it is not available ("" if it is), and what was seen of it.

    `settings` are those of torch that were in force while it answered; `compiled` is None where nothing was to be.
    """

    name: str
    label: str
    device: str
    compiler: str
    threads: int
    why_not: str = ""
    torch: str = ""
    settings: Mapping[str, Any] | None = None
    repeated: Repeated | None = None
    compiled: Compiled | None = None


@dataclass(frozen=True)
class Voice:
    """An execution in one cell: its verdict, the largest error / bound, and what explains it if it fails.

    `witness` is the id of the case that shows the verdict.
    """

    execution: str
    verdict: Verdict
    cases: int
    loss_ratio: float
    gradient_ratio: float
    message: str
    explanation: str
    witness: str


@dataclass(frozen=True)
class Pair:
    """The reference and another execution in one cell."""

    execution: str
    verdict: PairVerdict
    apart: Apart


@dataclass(frozen=True)
class ParityCell:
    """A cell with everyone who took part in it; the reference has no pair."""

    loss_type: str
    level: str
    beta: float
    dtype: str
    voices: tuple[Voice, ...]
    pairs: tuple[Pair, ...]

    @property
    def name(self) -> str:
        """The cell in words."""
        return f"{self.loss_type} {self.level} beta {self.beta:g} {self.dtype}"

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to say of it."""
        quiet = (Verdict.CONFORMS, Verdict.UNSUPPORTED)
        return all(voice.verdict in quiet for voice in self.voices)


@dataclass(frozen=True)
class Precision:
    """Effective significand bits of an execution in a dtype (NaN: too few errors); a narrower dtype if seen."""

    execution: str
    dtype: str
    bits: float
    computed_in: str = ""


@dataclass(frozen=True)
class Parity:
    """A whole parity check; the first of `executions` that is available is the reference."""

    target: str
    executions: tuple[ExecutionFacts, ...]
    cells: tuple[ParityCell, ...]
    precisions: tuple[Precision, ...]
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    about: Mapping[str, Any]
    exit_code: int

    @property
    def reference(self) -> ExecutionFacts | None:
        """What the others are compared with; None where nothing is available."""
        return next((one for one in self.executions if not one.why_not), None)

    @property
    def dtypes(self) -> Sequence[str]:
        """The dtypes, in the order in which they were asked."""
        return list(dict.fromkeys(cell.dtype for cell in self.cells))
