"""How one generation batch is cut into micro-batches, accumulation steps and ranks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Mode(StrEnum):
    """Training, or evaluation, where a batch is neither split into steps nor accumulated."""

    TRAIN = "train"
    EVAL = "eval"


@dataclass(frozen=True)
class Split:
    """One generation batch of `ranks x steps_per_generation` micro-batches of equal rows.

    Rows are ordered by rank, then by micro-batch. Judged is the first optimizer step: the first
    `accumulation_steps` micro-batches on every rank, their losses added up on a rank and averaged over ranks. In
    eval mode each rank has its rows in one piece, and the two step counts must not matter. All three numbers are 1
    where a case has no split.

    Raises `ValueError` when a number is below 1 or `steps_per_generation` is no multiple of `accumulation_steps`.
    """

    ranks: int = 1
    accumulation_steps: int = 1
    steps_per_generation: int = 1
    mode: Mode = Mode.TRAIN

    def __post_init__(self) -> None:
        for field in ("ranks", "accumulation_steps", "steps_per_generation"):
            value = getattr(self, field)
            if type(value) is not int or value < 1:
                raise ValueError(f"{field}: got {value!r}, takes an integer of at least 1")
        if self.steps_per_generation % self.accumulation_steps:
            raise ValueError(
                f"steps_per_generation: got {self.steps_per_generation}, takes a multiple of "
                f"accumulation_steps ({self.accumulation_steps})"
            )
        try:
            object.__setattr__(self, "mode", Mode(self.mode))
        except ValueError:
            raise ValueError(f"mode: got {self.mode!r}, takes one of {', '.join(Mode)}") from None

    @property
    def is_whole(self) -> bool:
        """Whether the batch is judged in one piece, in training."""
        return self == _WHOLE

    @property
    def micro_batches(self) -> int:
        """Micro-batches that the whole generation batch consists of."""
        return self.ranks if self.mode is Mode.EVAL else self.ranks * self.steps_per_generation

    def judged(self, rows: int) -> tuple[tuple[range, ...], ...]:
        """The rows of each micro-batch of the judged step, per rank; `rows` is a multiple of `micro_batches`."""
        per_rank = rows // self.ranks
        size = rows // self.micro_batches
        count = 1 if self.mode is Mode.EVAL else self.accumulation_steps
        return tuple(
            tuple(range(start, start + size) for start in range(first, first + count * size, size))
            for first in range(0, rows, per_rank)
        )


_WHOLE: Final = Split()
