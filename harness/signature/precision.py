"""Whether something is computed in a lower precision than it should be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from cases.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, DType
from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Explanation
from oracles.batched.dispatch import expect
from oracles.contract import Contract

_LOWER: Final[dict[str, tuple[DType, ...]]] = {
    FLOAT64.name: (FLOAT32, BFLOAT16),
    FLOAT32.name: (FLOAT16, BFLOAT16),
    FLOAT16.name: (BFLOAT16,),
}
_ENOUGH_SIGNS: Final = 4
_SCATTERED: Final = 0.25


def precision(evidence: Evidence) -> Iterator[Explanation]:
    """Whether the errors are those of a lower precision: within its bound, and of no constant size."""
    cases = evidence.numbers
    for dtype in _LOWER.get(cases[0].case.batch.dtype.name, ()):
        if all(one.explained_by(expect(one.case, Contract.of(dtype))) for one in cases) and _scatters(cases):
            # The bounds of the two half types overlap too far to tell which it is.
            name = dtype.name if dtype is FLOAT32 else "half precision"
            yield Explanation(f"something is computed in {name}", 1.0)
            return


def _scatters(cases: Sequence[Answered]) -> bool:
    """Whether relative errors of the loss, or of gradients at one sign of the advantage, have both signs."""
    signs: dict[str, list[float]] = {}
    for one in cases:
        assert one.outcome.gradient is not None, "asked of numbers only"
        assert one.outcome.loss is not None, "asked of numbers only"
        exact, got, advantages = (
            one.expectation.gradients[0],
            one.outcome.gradient,
            one.case.batch.token_advantages,
        )
        off = np.abs(got - exact.high) > exact.bound
        for sign, error in zip(np.sign(advantages[off]), ((got - exact.high) * exact.high)[off], strict=True):
            signs.setdefault(f"gradient {sign}", []).append(float(np.sign(error)))
        total = one.expectation.loss
        if abs(one.outcome.loss - total.high[0]) > total.bound[0]:
            signs.setdefault("loss", []).append(float(np.sign((one.outcome.loss - total.high[0]) * total.high[0])))
    many = [found for found in signs.values() if len(found) >= _ENOUGH_SIGNS]
    return any(min(one.count(1.0), one.count(-1.0)) >= _SCATTERED * len(one) for one in many)
