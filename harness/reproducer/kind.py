"""What is particular to the script of one kind of target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cases.dtypes import FloatArray
from cases.spec import LossSpec, LossType
from harness.reproducer.finding import Finding
from harness.reproducer.tensors import needed

_PUBLISHED: Final = re.compile(r"\d+(\.\d+)*(\.post\d+)?")
_OF_LOSS: Final = {
    LossType.DR_GRPO: ("max_completion_length",),
    LossType.SAPO: ("sapo_temperature_pos", "sapo_temperature_neg"),
    LossType.VESPO: ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"),
}


@dataclass(frozen=True)
class Kind:
    """How a target is imported and called.

    * `template`: the file that calls it, with `values` for what it leaves open.
    * `what`: what must be installed, in words; `install`: the command that does it, or "" and `where` to run it;
      `missing`: the exception where it is not installed.
    * `imports`: modules of the standard library, and `third_party` those that may be missing, as import lines;
      `own_module`: one that may lie in the current folder, or "".
    * `stand_ins`: packages that are imported there and not used.
    * `tensors`: those it is given; `mask_dtype` is "long" or "bool"; `instead` has numbers in place of the case's.
    """

    template: str
    what: str
    third_party: tuple[str, ...]
    values: Mapping[str, Any]
    tensors: tuple[str, ...]
    install: str = ""
    where: str = ""
    missing: str = "ImportError"
    own_module: str = ""
    imports: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    mask_dtype: str = "long"
    instead: Mapping[str, FloatArray] = field(default_factory=dict)


Describe = Callable[[Finding], Kind]


def of_library(finding: Finding, distribution: str, package: str, **particular: Any) -> Kind:
    """The kind of a library that is installed under a name of its own."""
    version = finding.facts.versions.get(package, "unknown")
    published = _PUBLISHED.fullmatch(version) is not None
    return Kind(
        what=f"{distribution}{'' if version == 'unknown' else f' {version}'}",
        install=f"pip install {distribution}=={version}" if published else "",
        tensors=tuple(needed(finding.case)),
        stand_ins=stand_ins(finding),
        **particular,
    )


def stand_ins(finding: Finding) -> tuple[str, ...]:
    """Packages that the adapter found missing, and put stand-ins for."""
    said = " is a stand-in: only imports need it"
    return tuple(line.removesuffix(said) for line in finding.facts.replaced if line.endswith(said))


def arguments(**given: str | None) -> list[str]:
    """Keyword arguments as texts; those that are None are left out."""
    return [f"{name}={text}" for name, text in given.items() if text is not None]


def own_numbers(spec: LossSpec) -> dict[str, str | None]:
    """The numbers that are a loss's own, by name, as Python."""
    return {name: number(getattr(spec, name)) for name in _OF_LOSS.get(spec.loss_type, ())}


def bounds(spec: LossSpec) -> tuple[str | None, str | None]:
    """epsilon_low and epsilon_high as Python, None where the loss does not read one."""
    low, high = number(spec.epsilon_low), number(spec.epsilon_high)
    if spec.loss_type.clips:
        return low, high
    return None, high if spec.loss_type is LossType.CISPO else None


def number(value: float | None) -> str | None:
    """A hyper-parameter as Python."""
    return None if value is None else repr(value)


def text(value: str) -> str:
    """A word as Python, in double quotes."""
    return f'"{value}"'
