"""`dapo,token,0,float32`: a cell on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from harness.errors import UsageError

_DEFAULTS: Final = ("", "token", "0", "float32")


@dataclass(frozen=True)
class CellWords:
    """The four parts of a cell as they were written, for `Plan.of`; what was left out is as usual."""

    loss_type: str
    level: str
    beta: str
    dtype: str

    @classmethod
    def of(cls, text: str) -> CellWords:
        """Read LOSS_TYPE[,LEVEL[,BETA[,DTYPE]]]. Raises `UsageError` when a part is empty or too much."""
        words = [word.strip() for word in text.split(",")]
        if len(words) > len(_DEFAULTS) or not all(words):
            raise UsageError(
                f"--cell: got {text!r}, takes LOSS_TYPE[,LEVEL[,BETA[,DTYPE]]]", "such as dapo,token,0,float32"
            )
        return cls(*words, *_DEFAULTS[len(words) :])

    def __str__(self) -> str:
        return f"{self.loss_type} {self.level} beta {self.beta} {self.dtype}"
