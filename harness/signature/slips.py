"""Which step written wrong explains a cell."""

from __future__ import annotations

from collections.abc import Iterator

from harness.signature.evidence import Answered, Evidence
from harness.signature.explanation import Hypothesis
from oracles.scalar import Scalar
from oracles.slips.catalogue import SLIPS
from oracles.slips.steps import Slip, Steps
from oracles.space.names import variant_of
from oracles.space.pieces import Pieces


def slips(evidence: Evidence) -> Iterator[Hypothesis]:
    """Every slip."""
    pieces = {one: Pieces(one.case) for one in evidence}
    for slip in SLIPS:

        def explains(one: Answered, slip: Slip = slip) -> bool:
            if not slip.concerns(one.case):
                # Where the step is not taken, the answer must be right.
                return one.is_right
            loss = _written(slip, one, pieces[one])
            return one.loses(loss, pieces[one].overflows) and one.explained_by(pieces[one].expected(loss))

        def concerns(one: Answered, slip: Slip = slip) -> bool:
            return slip.concerns(one.case)

        def told(_: Answered, slip: Slip = slip) -> str:
            return slip.words

        yield Hypothesis(evidence, explains, concerns, told)


def _written(slip: Slip, one: Answered, pieces: Pieces) -> Scalar:
    steps = slip.change(Steps.asked(one.case.spec), one.case)
    return pieces.written(steps, variant_of(one.case.spec))
