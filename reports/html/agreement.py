"""How many bits of an answer are right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cases.dtypes import DTYPES
from reports.table import QUANTITIES

SHADES: Final = 4


@dataclass(frozen=True)
class Agreement:
    """Bits of the significand that agree with the exact answer, of those that the dtype has; None if not compared.

    That is precision - log2(error in ulps), rounded down, of the worse of loss and gradient.
    """

    bits: int | None
    of: int

    @classmethod
    def of_cell(cls, cell: Mapping[Any, Any]) -> Agreement:
        """Of the largest divergences in one row of the table that `cell_table` makes."""
        precision = DTYPES[cell["dtype"]].precision
        ulps = [float(cell[f"{quantity}_ulps"]) for quantity in QUANTITIES]
        known = [value for value in ulps if not math.isnan(value)]
        if not known:
            return cls(None, precision)
        lost = math.inf if math.isinf(max(known)) else math.log2(max(*known, 1.0))
        return cls(max(math.floor(precision - lost), 0) if math.isfinite(lost) else 0, precision)

    @property
    def text(self) -> str:
        """Such as "21/24 bits"."""
        return "" if self.bits is None else f"{self.bits}/{self.of} bits"

    @property
    def shade(self) -> str:
        """From "0", no bit is right, to "4", nearly all are; "" where nothing was compared."""
        return "" if self.bits is None else str(round(SHADES * self.bits / self.of))
