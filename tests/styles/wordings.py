"""Ways to write one loss that are all correct, and differ in rounding and in what they do at a tie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor

from cases.pairwise import covering

Bounding = Literal["clamp", "min_max", "where"]


@dataclass(frozen=True)
class Wording:
    """What each part of a loss is written with.

    * `bounds`: how numbers are held between two bounds: `torch.clamp`, which passes the gradient at a tie; minimum
      and maximum with constants, which pass half of it; or `torch.where`, which passes all or nothing.
    * `surrogate`: the smaller of two surrogates, the larger of their negatives, or a branch by the advantage.
    * `dual_clip`: the larger of the surrogate and c A, the smaller of the loss and -c A, or a bound of the ratio.
    * `own_ratio`: GSPO-token as one exponential of a sum, or as a detached ratio times an exponential that is 1.
    * `gmpo`: the smaller log-ratio after multiplication by the sign, a branch by it, or a minimum with the bound.
    * `kl`: k3 by `exp` or `expm1`; k1 and k2 of either difference.
    * `divisor`: a tensor that the epsilon is added to, numbers of Python, or weights of every token.
    * `internals`: the dtype itself, or float32 where that is wider.
    """

    bounds: Bounding = "clamp"
    surrogate: Literal["min", "max", "where"] = "min"
    dual_clip: Literal["larger", "smaller", "ratio"] = "larger"
    own_ratio: Literal["sum", "product"] = "sum"
    gmpo: Literal["sign", "where", "minimum"] = "sign"
    kl: Literal["exp", "expm1"] = "exp"
    divisor: Literal["tensor", "number", "weights"] = "tensor"
    internals: Literal["same", "float32"] = "same"


_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "bounds": ("clamp", "min_max", "where"),
    "surrogate": ("min", "max", "where"),
    "dual_clip": ("larger", "smaller", "ratio"),
    "own_ratio": ("sum", "product"),
    "gmpo": ("sign", "where", "minimum"),
    "kl": ("exp", "expm1"),
    "divisor": ("tensor", "number", "weights"),
    "internals": ("same", "float32"),
}

WORDINGS: Final = tuple(Wording(**choice) for choice in covering(_CHOICES))
"""Wordings in which every two choices meet."""


def bounded(values: Tensor, low: float | None, high: float | None, how: Bounding) -> Tensor:
    """The values between two bounds, either of which may be None."""
    if how == "clamp":
        return values if low is None and high is None else torch.clamp(values, low, high)
    if low is not None:
        least = values.new_full((), low)
        values = torch.maximum(values, least) if how == "min_max" else torch.where(values < least, least, values)
    if high is not None:
        most = values.new_full((), high)
        values = torch.minimum(values, most) if how == "min_max" else torch.where(values < most, values, most)
    return values
