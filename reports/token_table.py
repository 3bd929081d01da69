"""A case token by token: a table of texts that is printed, and stored in a run for its reports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self

FORMAT: Final = "lossgate-tokens/1"
EQUATION: Final = "loss = sum of weight x (policy + beta x kl); expected, got, bound: of its gradient"


@dataclass(frozen=True, eq=False)
class TokenTable:
    """What each unmasked token brings to the loss, and its expected and its actual gradient.

    * `settings`: the hyper-parameters, in one line.
    * `columns`: name to texts, all of one length: a text a token; empty where no token is unmasked.
    * `left_out`: how many more tokens there are.
    * `notes`: what else is seen, in words: masked positions that have a gradient.
    """

    settings: str
    columns: Mapping[str, tuple[str, ...]]
    left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """The texts of each token, in the order of the columns."""
        return zip(*self.columns.values(), strict=True)

    @property
    def lines(self) -> Iterator[str]:
        """The table as plain text."""
        yield ""
        yield f"  {self.settings}"
        yield from (f"  {line}" for line in (*self._tokens, *self.notes))

    @property
    def _tokens(self) -> Iterator[str]:
        if not self.columns:
            return
        widths = {name: max(len(name), *map(len, texts)) for name, texts in self.columns.items()}
        yield "  ".join(name.rjust(width) for name, width in widths.items())
        for texts in self.rows:
            yield "  ".join(text.rjust(width) for text, width in zip(texts, widths.values(), strict=True))
        if self.left_out:
            yield f"and {self.left_out} more tokens"
        if "weight" in self.columns:
            yield EQUATION

    def to_json(self) -> str:
        """The table as JSON text."""
        columns = {name: list(texts) for name, texts in self.columns.items()}
        content = {
            "format": FORMAT,
            "settings": self.settings,
            "columns": columns,
            "left_out": self.left_out,
            "notes": list(self.notes),
        }
        return json.dumps(content) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` wrote. Raises `ValueError` when the text is something else."""
        try:
            content: dict[str, Any] = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r}, not {FORMAT!r}")
            columns = {str(name): tuple(map(str, texts)) for name, texts in content["columns"].items()}
            if len({len(texts) for texts in columns.values()}) > 1:
                raise ValueError("columns of different lengths")
            notes = tuple(map(str, content["notes"]))
            return cls(str(content["settings"]), MappingProxyType(columns), int(content["left_out"]), notes)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no table of tokens: {error!r}") from error
