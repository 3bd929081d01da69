"""How one generation batch is cut into micro-batches, accumulation steps and ranks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Split:
    """One generation batch of `ranks x steps_per_generation` micro-batches of equal rows.

    Judged is the first optimizer step: the first `accumulation_steps` micro-batches on every rank. All three
    are 1 where a case has no split.

    Raises `ValueError` when a number is below 1 or `steps_per_generation` is no multiple of
    `accumulation_steps`.
    """

    ranks: int = 1
    accumulation_steps: int = 1
    steps_per_generation: int = 1

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

    @property
    def is_whole(self) -> bool:
        """Whether the batch is judged in one piece."""
        return self == Split()
