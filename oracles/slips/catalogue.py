"""Every slip, the plainest first."""

from __future__ import annotations

from typing import Final

from oracles.slips import divergences, dropping, ratios, surrogates, weights
from oracles.slips.steps import Slip

SLIPS: Final[tuple[Slip, ...]] = (
    *surrogates.SLIPS,
    *ratios.SLIPS,
    *divergences.SLIPS,
    *weights.SLIPS,
    *dropping.SLIPS,
)
