"""The tensors of one loss call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cases.dtypes import DTYPES, DType, FloatArray

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Batch:
    """Masked per-token log-probabilities and advantages of `B` completions of at most `T` tokens.

    All float arrays are float64 and hold only values that `dtype` represents exactly; masked positions hold
    finite garbage. Arrays are read-only.

    * `logps (B, T)`: log-probabilities under the current policy, the input that is differentiated.
    * `old_logps (B, T)` or None: under the policy that generated the tokens; None is the on-policy form, in
      which the ratio is `exp(logps - stop_gradient(logps))`.
    * `ref_logps (B, T)` or None: under the reference policy; needed when beta is not 0.
    * `advantages (B,)` or `(B, T)`.
    * `mask (B, T)`: bool, True where a token counts.
    * `sampling_logps (B, T)` or None: under the inference engine that sampled the tokens; read by the off-policy
      mask only, which takes `old_logps` where there are none.
    * `importance_ratio (B, T)`, `(B, 1)` or None: constant factor, of at least 0, of the policy term.

    Raises `ValueError` naming the field when a shape, dtype or value is wrong.
    """

    dtype: DType
    logps: FloatArray
    old_logps: FloatArray | None
    ref_logps: FloatArray | None
    advantages: FloatArray
    mask: Mask
    sampling_logps: FloatArray | None = None
    importance_ratio: FloatArray | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, DType):
            raise ValueError(f"dtype: got {self.dtype!r}, takes one of {', '.join(DTYPES)}")
        try:
            shape = np.shape(self.logps)
        except ValueError as error:
            raise ValueError(f"logps: takes numbers of shape (B, T) ({error})") from None
        if len(shape) != 2 or 0 in shape:
            raise ValueError(f"logps: got shape {shape}, takes (B, T) with B and T at least 1")
        self._freeze("logps", [shape])
        self._freeze("advantages", [shape[:1], shape])
        for optional in ("old_logps", "ref_logps", "sampling_logps"):
            if getattr(self, optional) is not None:
                self._freeze(optional, [shape])
        if self.importance_ratio is not None:
            self._freeze("importance_ratio", [shape, (shape[0], 1)])
            if (self.importance_ratio < 0).any():
                raise ValueError("importance_ratio: got a number below 0, takes numbers of at least 0")
        mask = np.array(self.mask)
        if mask.dtype != np.bool_ or mask.shape != shape:
            raise ValueError(f"mask: got {mask.dtype} of shape {mask.shape}, takes bool of shape {shape}")
        mask.setflags(write=False)
        object.__setattr__(self, "mask", mask)

    def _freeze(self, field: str, shapes: list[tuple[int, ...]]) -> None:
        given = getattr(self, field)
        try:
            # Another batch's array is shared, not copied.
            array = given if _is_frozen(given) else np.array(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{field}: takes numbers of shape {_either(shapes)} ({error})") from error
        if array.shape not in shapes:
            raise ValueError(f"{field}: got shape {array.shape}, takes {_either(shapes)}")
        if not np.isfinite(array).all():
            raise ValueError(f"{field}: got a value that is not finite, takes finite numbers only")
        if not self.dtype.holds(array):
            raise ValueError(f"{field}: got a value that {self.dtype.name} cannot hold exactly")
        array.setflags(write=False)
        object.__setattr__(self, field, array)

    @property
    def rows(self) -> int:
        """B."""
        return int(self.logps.shape[0])

    @property
    def columns(self) -> int:
        """T."""
        return int(self.logps.shape[1])

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Unmasked tokens of each completion, shape (B,)."""
        lengths: npt.NDArray[np.int64] = self.mask.sum(axis=1, dtype=np.int64)
        return lengths

    @property
    def tokens(self) -> int:
        """Unmasked tokens of the batch."""
        return int(self.mask.sum())

    @property
    def token_advantages(self) -> FloatArray:
        """Advantages as (B, T), whichever form they were given in."""
        if self.advantages.ndim == 2:
            return self.advantages
        return np.broadcast_to(self.advantages[:, None], self.logps.shape)

    @property
    def token_importance_ratio(self) -> FloatArray | None:
        """The importance ratio as (B, T), whichever form it was given in."""
        if self.importance_ratio is None:
            return None
        return np.broadcast_to(self.importance_ratio, self.logps.shape)

    @property
    def log_ratios(self) -> FloatArray:
        """`logps - old_logps` in float64, shape (B, T); 0 in the on-policy form."""
        if self.old_logps is None:
            return np.zeros_like(self.logps)
        return self.logps - self.old_logps

    @cached_property
    def without_reference(self) -> Batch:
        """The batch without `ref_logps`."""
        return replace(self, ref_logps=None)

    def take(self, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Batch:
        """Some of the completions and positions, in the order given; None takes all."""

        def taken(values: Any) -> Any:
            if values is None:
                return None
            kept = values if rows is None else values[list(rows)]
            whole_row = kept.ndim == 1 or kept.shape[1] != self.columns
            return kept if columns is None or whole_row else kept[:, list(columns)]

        tensors = {field.name: taken(getattr(self, field.name)) for field in fields(self) if field.name != "dtype"}
        return Batch(dtype=self.dtype, **tensors)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return all(_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def __hash__(self) -> int:
        return hash((self.dtype.name, self.logps.tobytes(), self.mask.tobytes()))


def _is_frozen(values: object) -> bool:
    """Whether it is an array that nobody writes to: read-only, and no view of another."""
    return (
        isinstance(values, np.ndarray)
        and values.dtype == np.float64
        and values.flags.owndata
        and not values.flags.writeable
    )


def _equal(ours: object, theirs: object) -> bool:
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        # To the bit: 0 and -0 are different inputs.
        return ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()
    if isinstance(ours, np.ndarray) or isinstance(theirs, np.ndarray):
        return False
    return ours == theirs


def _either(shapes: list[tuple[int, ...]]) -> str:
    return " or ".join(str(shape) for shape in dict.fromkeys(shapes))
