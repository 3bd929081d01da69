"""Which file holds which loss, and which regions of input space a verdict on it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cases.spec import LossSpec, LossType
from oracles import bnpo, cispo, dapo, dr_grpo, gmpo, grpo, luspo, sapo, vespo
from oracles.completions import Formula
from oracles.scalar import Scalar

_CLIPPED: Final = ("ratio_inside", "clipped_high", "clipped_low", "unclipped_high", "unclipped_low")
_CAPPED: Final = ("ratio_inside", "clipped_high", "unclipped_high")
_SOFT: Final = ("ratio_inside", "ratio_far", "advantage_positive", "advantage_negative", "advantage_zero")
_KL: Final = ("ref_near", "ref_above", "ref_below")


@dataclass(frozen=True)
class Oracle:
    """A loss as a formula, and the regions without which nothing is known about an implementation of it."""

    loss: Callable[[Formula], Scalar]
    needs: tuple[str, ...]

    def regions(self, spec: LossSpec) -> tuple[str, ...]:
        """The regions that a run must hit to judge `spec`."""
        return self.needs + (_KL if spec.beta > 0 else ())


ORACLES: Final = {
    LossType.GRPO: Oracle(grpo.loss, _CLIPPED),
    LossType.BNPO: Oracle(bnpo.loss, _CLIPPED),
    LossType.DR_GRPO: Oracle(dr_grpo.loss, _CLIPPED),
    LossType.DAPO: Oracle(dapo.loss, _CLIPPED),
    LossType.CISPO: Oracle(cispo.loss, _CAPPED),
    LossType.SAPO: Oracle(sapo.loss, _SOFT),
    LossType.LUSPO: Oracle(luspo.loss, _CLIPPED),
    LossType.VESPO: Oracle(vespo.loss, _SOFT),
    LossType.GMPO: Oracle(gmpo.loss, _CLIPPED),
}
