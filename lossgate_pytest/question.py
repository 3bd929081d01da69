"""What a mark or a check asks: a target and the cells to judge it in."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

AXES: Final[Mapping[str, tuple[Any, ...]]] = {
    "loss_type": (),
    "level": ("token", "sequence"),
    "beta": (0.0, 0.04),
    "dtype": ("float64", "float32", "bfloat16"),
}
"""What makes a cell, each with what `lossgate run` takes where it is left out; which loss it is must be said."""

_NUMBERS: Final = ("examples", "seed")


@dataclass(frozen=True)
class Cell:
    """One cell of a target."""

    loss_type: str
    level: str
    beta: float
    dtype: str

    def __str__(self) -> str:
        return f"{self.loss_type} {self.level} beta {self.beta:g} {self.dtype}"

    @property
    def id(self) -> str:
        """The name of its test, such as "grpo-token-beta0.04-float32"."""
        return f"{self.loss_type}-{self.level}-beta{self.beta:g}-{self.dtype}"


@dataclass(frozen=True)
class Question:
    """A target and its cells, for one run; `numbers` are `examples` and `seed`, where they are given."""

    target: str
    cells: tuple[Cell, ...]
    numbers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, *targets: Any, **given: Any) -> Question:
        """Read the arguments of a mark or a check. Raises `ValueError` with a sentence that says what is wrong."""
        if len(targets) != 1:
            raise ValueError(f"got {len(targets)} targets, takes one, such as 'my_pkg.losses:grpo_loss'")
        for name in given:
            _check_name(name)
        if given.get("loss_type") is None:
            raise ValueError("which loss is it? say loss_type='grpo', or a list of them")
        axes = [_listed(name, given.get(name), usual) for name, usual in AXES.items()]
        numbers = [(name, given[name]) for name in _NUMBERS if given.get(name) is not None]
        for name, value in numbers:
            if type(value) is not int:
                raise ValueError(f"{name}: got {value!r}, takes an integer")
        return cls(_name_of(targets[0]), tuple(itertools.starmap(Cell, itertools.product(*axes))), tuple(numbers))

    def narrowed(self, cells: Iterable[Cell]) -> Question:
        """The same of some of its cells, in its own order."""
        kept = set(cells)
        return Question(self.target, tuple(cell for cell in self.cells if cell in kept), self.numbers)

    @property
    def options(self) -> list[str]:
        """It as options of `lossgate run`: the cells, and those that complete them to a product of lists."""
        texts = []
        for name in AXES:
            values = dict.fromkeys(getattr(cell, name) for cell in self.cells)
            texts += [f"--{name.replace('_', '-')}", ",".join(map(str, values))]
        return texts + [text for name, number in self.numbers for text in (f"--{name}", str(number))]


def _check_name(name: str) -> None:
    known = (*AXES, *_NUMBERS)
    if name not in known:
        import difflib

        close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"no argument {name!r}, takes {', '.join(known)}{meant}")


def _listed(name: str, given: Any, usual: tuple[Any, ...]) -> tuple[Any, ...]:
    values = usual if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)
    read = _beta if name == "beta" else _word
    try:
        taken = tuple(dict.fromkeys(map(read, values)))
    except (TypeError, ValueError):
        what = "a number or a list of numbers" if name == "beta" else "a name or a list of names"
        raise ValueError(f"{name}: got {given!r}, takes {what}") from None
    if not taken:
        raise ValueError(f"{name}: the list is empty")
    return taken


def _beta(value: Any) -> float:
    if isinstance(value, str | bool):
        raise TypeError
    return float(value)


def _word(value: Any) -> str:
    # A dtype may be torch's own, or a loss type a member of an enumeration of strings.
    word = str(getattr(value, "value", value)).removeprefix("torch.")
    if not word.isidentifier():
        raise ValueError
    return word


def _name_of(target: Any) -> str:
    """The name under which another process can import a callable; text is a name already."""
    if isinstance(target, str):
        return target
    module, path = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    found = sys.modules.get(str(module)) if module != "__main__" else None
    for part in str(path).split("."):
        found = getattr(found, part, None)
    if found is None or found is not target:
        what = path or repr(target)
        raise ValueError(
            f"{what} cannot be imported by name in another process: "
            "give it a name at the top of a module, or pass that name, such as 'my_pkg.losses:grpo_loss'"
        )
    return f"{module}:{path}"
