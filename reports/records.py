"""One case judged in one cell, and the words for how it ended."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """How one case ended in one cell; `about` is the sentence a user sees."""

    CONFORMS = "conforms"
    OVERFLOW = "overflow"
    NONDETERMINISTIC = "nondeterministic"
    ERROR = "error"
    TIMEOUT = "timeout"
    CRASH = "crash"
    DIVERGES = "diverges"
    KNOWN = "known"
    UNSUPPORTED = "unsupported"

    @property
    def about(self) -> str:
        """What the verdict means, as one sentence."""
        return _ABOUT[self]

    @property
    def fails(self) -> bool:
        """Whether the target did something wrong, so that a gate must not pass."""
        return self in _FAILING


_ABOUT: Final = {
    Verdict.CONFORMS: "The loss and every gradient element are as near to the formula as rounding allows.",
    Verdict.OVERFLOW: (
        "The answer is not finite only where an intermediate of the formula exceeds the dtype; "
        "all that is finite is as near as rounding allows."
    ),
    Verdict.NONDETERMINISTIC: "The same case, asked twice, got answers further apart than rounding allows.",
    Verdict.ERROR: "The target raised an exception instead of answering.",
    Verdict.TIMEOUT: "The target did not answer in time and was stopped.",
    Verdict.CRASH: "The target's process died while it worked on the case.",
    Verdict.DIVERGES: "The loss or a gradient element is further from the formula than rounding can explain.",
    Verdict.KNOWN: "It diverges as an expectation says that it does; the reason is its own.",
    Verdict.UNSUPPORTED: "The target said that it does not offer this loss, dtype or option.",
}

SEVERITY: Final = (
    Verdict.DIVERGES,
    Verdict.CRASH,
    Verdict.TIMEOUT,
    Verdict.ERROR,
    Verdict.NONDETERMINISTIC,
    Verdict.KNOWN,
    Verdict.OVERFLOW,
    Verdict.CONFORMS,
)
"""Worst first. `unsupported` has no place in it: nothing was judged."""

_FAILING: Final = frozenset(SEVERITY[: SEVERITY.index(Verdict.KNOWN)])


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a cell from those of its cases: `unsupported` counts only when there is nothing else.

    Raises `ValueError` when there are no verdicts.
    """
    found = set(verdicts)
    for verdict in SEVERITY:
        if verdict in found:
            return verdict
    if not found:
        raise ValueError("verdicts: got none, takes at least one")
    return Verdict.UNSUPPORTED


@dataclass(frozen=True)
class Cell:
    """One row of the table: what was tested, for which loss, in which dtype, where.

    `surface` says where the target takes its input and where the gradient is judged, such as "logps".
    """

    target: str
    surface: str
    loss_type: str
    level: str
    beta: float
    dtype: str
    device: str

    def __str__(self) -> str:
        place = "" if self.device == "cpu" else f" {self.device}"
        return f"{self.target} {self.loss_type} {self.level} beta {self.beta:g} {self.dtype}{place}"


@dataclass(frozen=True)
class Divergence:
    """How far one number lies from the exact one.

    * `absolute`: in the number's own unit.
    * `ulps`: in spacings of the dtype at the exact value.
    * `ratio`: error / bound; infinite where the bound is 0 and the error is not, or where the answer is not
      finite. Above 1, rounding cannot explain it.

    All three are NaN where nothing was compared.
    """

    absolute: float
    ulps: float
    ratio: float


NOT_COMPARED: Final = Divergence(math.nan, math.nan, math.nan)
"""Where there was no answer to compare."""


@dataclass(frozen=True)
class Record:
    """How one case ended in one cell.

    * `description`: running number, in the run, of the description the case was made from.
    * `phase`: "corpus", "regions", "drawn", "large", "padding", or "shrunk" for a failing case made small.
    * `rows`, `columns`, `tokens`: B, T and the unmasked tokens of the batch.
    * `regions`: names of the regions of input space the case lies in.
    * `gradient`: of the element with the largest ratio, at `gradient_row`, `gradient_column`, or None where
      no element was compared.
    * `message`: what happened in words; empty if the case conforms.
    * `bits_equal`: whether the repetition gave the same bits; None if the case was not repeated.
    """

    cell: Cell
    case_id: str
    description: int
    phase: str
    rows: int
    columns: int
    tokens: int
    regions: tuple[str, ...]
    verdict: Verdict
    loss: Divergence
    gradient: Divergence
    gradient_row: int | None
    gradient_column: int | None
    message: str
    repeated: bool
    bits_equal: bool | None
