"""How the parameters of a callable are mapped to what is offered."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from ..target import TensorCase, Unavailable, Unsupported
from .offered import BY_NAME, OFFERED, Argument, value_of

_ADVANTAGES = ("advantages", "token_advantages", "completion_advantages")
_NEEDED = (("logps",), _ADVANTAGES, ("mask",))

# The types of a schema that can hold a kind.
_TYPES = {
    "tensor": ("Tensor",),
    "number": ("float", "number"),
    "integer": ("int", "float", "number"),
    "count": ("Tensor", "int", "float", "number"),
    "flag": ("bool",),
    "text": ("str",),
}
_CASTS: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float, "number": float}


@dataclass(frozen=True)
class Parameter:
    """A parameter as a signature has it; `takes` and `optional` are its type, where the signature has types."""

    name: str
    required: bool
    takes: str = ""
    optional: bool = True


class Arguments:
    """The parameters of a callable and what each of them is given."""

    def __init__(self, label: str, parameters: Iterable[Parameter]) -> None:
        """Map parameters to what is offered; one with a default that is not offered is left alone.

        Raises `Unavailable` when one cannot be mapped, two mean the same, or one that every loss needs is missing.
        """
        self._label = label
        self._mapped: dict[Parameter, str] = {}
        for parameter in parameters:
            argument = BY_NAME.get(parameter.name)
            if argument is None:
                if parameter.required:
                    raise _not_offered(label, parameter.name)
                continue
            for other, name in self._mapped.items():
                if name == argument.name:
                    raise Unavailable(
                        "unknown",
                        f"{label} has two parameters for {name}, {other.name} and {parameter.name}",
                        hint="judge a small function around it that has one of them",
                    )
            _check_type(label, parameter, argument)
            self._mapped[parameter] = argument.name
        if "epsilon_high" in self._mapped.values():
            # As in TRL, where epsilon is the lower bound, and the upper one too while epsilon_high is None.
            self._mapped = {
                parameter: "epsilon_low" if name == "epsilon" else name for parameter, name in self._mapped.items()
            }
        for alternatives in _NEEDED:
            if not any(self.has(name) for name in alternatives):
                raise Unavailable(
                    "unknown", f"{label} has no parameter {alternatives[0]!r}, which every loss needs; {_offer()}"
                )

    def has(self, *names: str) -> bool:
        """Whether all of these are taken, whatever they are called there."""
        return set(names) <= set(self._mapped.values())

    def values(self, case: TensorCase) -> dict[str, Any]:
        """What each parameter is given for a case.

        Raises `Unsupported` where a typed parameter cannot hold what the case has.
        """
        return dict(self._values(case))

    def _values(self, case: TensorCase) -> Iterator[tuple[str, Any]]:
        for parameter, name in self._mapped.items():
            value = value_of(name, case)
            if value is None and not parameter.optional:
                raise Unsupported(f"{self._label} must be given {parameter.name}, and the case has none")
            cast = _CASTS.get(parameter.takes)
            yield parameter.name, value if value is None or cast is None else cast(value)


def _check_type(label: str, parameter: Parameter, argument: Argument) -> None:
    if parameter.takes and parameter.takes not in _TYPES[argument.kind]:
        takes = " or ".join(_TYPES[argument.kind])
        raise Unavailable(
            "unknown", f"{label} takes {parameter.name} as {parameter.takes}, where {takes} is offered"
        )


def _not_offered(label: str, parameter: str) -> Unavailable:
    close = difflib.get_close_matches(parameter, BY_NAME, n=1)
    hint = (
        f"did you mean {close[0]!r}?" if close else "docs/targets.md has all names; give it a default, or wrap it"
    )
    if parameter == "self":
        hint = "name the method of an object, not of a class"
    return Unavailable("unknown", f"{label} requires {parameter!r}, which is not offered; {_offer()}", hint)


def _offer() -> str:
    return f"offered are {', '.join(argument.name for argument in OFFERED)}"
