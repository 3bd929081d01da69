"""The oracle on arrays against the literal one, on every case of a schedule, in every cell.

    python -m benchmarks.certification             all dtypes, as a Markdown table; exit 1 where they disagree
    python -m benchmarks.certification float32     some

`bound` is the largest ratio of the two bounds, `value` the largest difference of two values in units of the bound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from cases.case import Case
from cases.dtypes import DTYPES, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.generation import schedule
from oracles.batched.expectation import expect as on_arrays
from oracles.expectation import Exact, Expectation
from oracles.expectation import expect as literally

EXAMPLES: Final = 16
BETAS: Final = (0.0, 0.04)


@dataclass
class Seen:
    """What the cases of a dtype have shown so far."""

    cases: int = 0
    bound: float = 1.0
    value: float = 0.0
    disagree: int = 0

    def add(self, literal: Expectation, batched: Expectation) -> None:
        """Compare two expectations of one case."""
        self.cases += 1
        self.disagree += _decisions(literal) != _decisions(batched)
        pairs = [(literal.loss, batched.loss), *zip(literal.gradients, batched.gradients, strict=False)]
        for ours, theirs in pairs:
            self._add(ours, theirs)

    def _add(self, literal: Exact, batched: Exact) -> None:
        tells = (literal.bound > 0) & np.isfinite(literal.bound) & np.isfinite(literal.high)
        if not tells.any():
            return
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs((batched.high - literal.high) + (batched.low - literal.low))
        self.bound = max(self.bound, float((batched.bound[tells] / literal.bound[tells]).max()))
        self.value = max(self.value, float((apart[tells] / literal.bound[tells]).max()))


def _decisions(one: Expectation) -> tuple[object, ...]:
    return one.loss_overflows, len(one.gradients), len(one.others), one.gradient_overflows.tobytes()


def main(names: list[str]) -> int:
    """Print the table."""
    print("| dtype | cases | bound | value | other decisions |")
    print("|---|---:|---:|---:|---:|")
    disagree = 0
    for name in names or DTYPES:
        seen = Seen()
        for case in _cases(DTYPES[name]):
            seen.add(literally(case), on_arrays(case))
        print(f"| {name} | {seen.cases:,} | {seen.bound:.9f} | {seen.value:.1e} | {seen.disagree} |", flush=True)
        disagree += seen.disagree
    return int(disagree > 0)


def _cases(dtype: DType) -> Iterator[Case]:
    for entry, level in product(schedule(EXAMPLES, 0), Level):
        batch = realise(entry.description, dtype, level)
        for loss_type, beta in product(LossType, BETAS):
            yield case_for(entry.description, batch, loss_type, level, beta)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
