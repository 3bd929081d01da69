"""An entry of the corpus: a fault that was public, and the case that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Final

from cases.case import Case
from cases.conventions import PaddingPromise
from cases.descriptions import Description
from cases.spec import Level, LossType

LEVELS: Final = tuple(Level)


@dataclass(frozen=True)
class Entry:
    """One public fault.

    * `about`: what is wrong, in a sentence of our own; `links` lead to where it was said in public, or to a
      release that has it where nobody said it.
    * `shows`: which releases are known to have it.
    * `description`: the batch that shows it, judged in every cell of a run; None where the fault lies in a stage
      before the loss, which `stage` names and which is not judged.
    * `loss_types`, `levels`: where the fault shows.
    * `fault`: the seeded fault that is wrong in the same way, "" where there is none.
    * `masked`: what stands at the masked positions of which tensor where the fault shows, which no case can hold:
      padding hygiene tries it. None where the case alone shows it.
    """

    name: str
    about: str
    links: tuple[str, ...]
    shows: tuple[str, ...]
    description: Description | None = None
    loss_types: tuple[LossType, ...] = ()
    levels: tuple[Level, ...] = LEVELS
    fault: str = ""
    masked: tuple[PaddingPromise, str] | None = None
    stage: str = "loss"

    @property
    def pinned(self) -> Case:
        """The stored case of few tokens and readable numbers.

        Raises `ValueError` where the fault lies before the loss.
        """
        if self.description is None:
            raise ValueError(f"{self.name}: has no case, its fault lies in the stage of {self.stage}")
        file = resources.files("cases.corpus").joinpath("pinned", f"{self.name}.json")
        return Case.from_json(file.read_text(encoding="utf-8"))
