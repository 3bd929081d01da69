"""What a shell may complete an argument to. Nothing that is imported here takes long."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

DTYPES: Final = ("float64", "float32", "bfloat16", "float16")
LIBRARIES: Final = ("trl", "liger", "verl", "openrlhf", "unsloth")
PROFILES: Final = ("ci", "nightly")

_FAULT: Final = "fault:"


def target(incomplete: str) -> list[str]:
    """Names of targets; those of the faults once `fault:` is begun."""
    from harness.cli.fault_names import FAULT_NAMES

    # bash takes a colon for the end of a word, and asks for what follows it alone.
    before = _before_the_colon()
    if before == _FAULT:
        return _beginning(FAULT_NAMES, incomplete)
    if before:
        return []
    # All of them, so that no blank is put behind the colon.
    if incomplete and (_FAULT.startswith(incomplete) or incomplete.startswith(_FAULT)):
        return _beginning([_FAULT + name for name in FAULT_NAMES], incomplete)
    return _beginning([*LIBRARIES, _FAULT], incomplete)


def library(incomplete: str) -> list[str]:
    """Names of libraries."""
    return _beginning(LIBRARIES, incomplete)


def faults(incomplete: str) -> list[str]:
    """Names of faults, separated by commas."""
    from harness.cli.fault_names import FAULT_NAMES

    return _listed(FAULT_NAMES, incomplete)


def loss_types(incomplete: str) -> list[str]:
    """Loss types, separated by commas."""
    from cases.spec import LossType

    return _listed([str(one) for one in LossType], incomplete)


def levels(incomplete: str) -> list[str]:
    """Levels, separated by commas."""
    from cases.spec import Level

    return _listed([str(one) for one in Level], incomplete)


def dtypes(incomplete: str) -> list[str]:
    """Dtypes, separated by commas."""
    return _listed(DTYPES, incomplete)


def profile(incomplete: str) -> list[str]:
    """Names of profiles."""
    return _beginning(PROFILES, incomplete)


def _beginning(names: Sequence[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _listed(names: Sequence[str], incomplete: str) -> list[str]:
    """What the last of several names may become, after those that are there."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in taken]


def _before_the_colon() -> str:
    """What bash split off the word that is being completed, with its colon; "" where nothing was."""
    words = os.environ.get("COMP_WORDS", "").split("\n")
    at = int(os.environ.get("COMP_CWORD", "0"))
    return f"{words[at - 2]}:" if at >= 2 and words[at - 1 : at] == [":"] else ""
