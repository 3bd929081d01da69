"""What a run is asked to do: which targets, which cells, how many cases."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from cases.dtypes import DTYPES, DType
from cases.spec import Level, LossType
from harness.errors import UsageError, unknown
from harness.expectations.entry import NOTHING_EXPECTED, Expectations
from harness.generation import MOST_EXAMPLES
from harness.settings import TargetSettings

T = TypeVar("T")

MOST_JOBS: Final = 64
DEFAULT_MEMORY: Final = 16.0
"""Gigabytes that a target may allocate."""

_ELSEWHERE: Final = {"gspo": "GSPO is --loss-type grpo --level sequence"}


@dataclass(frozen=True)
class Profile:
    """Defaults that belong together; `seed` None takes a fresh one for every run."""

    name: str
    about: str
    examples: int
    seed: int | None
    betas: tuple[float, ...]
    dtypes: tuple[str, ...]
    large: bool = False


PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile("ci", "fixed seed, for a gate", 64, 0, (0.0, 0.04), ("float64", "float32", "bfloat16")),
        Profile(
            "nightly",
            "fresh seed, longer, with beta 1, float16 and large batches",
            512,
            None,
            (0.0, 0.04, 1.0),
            ("float64", "float32", "bfloat16", "float16"),
            large=True,
        ),
    )
}


@dataclass(frozen=True)
class Plan:
    """A run before it starts. `examples` descriptions are drawn on top of the boundary phase.

    `large` batches come last, if asked for. `config` is the file that `expect` and `settings` are from.
    """

    targets: tuple[str, ...]
    loss_types: tuple[LossType, ...]
    levels: tuple[Level, ...]
    betas: tuple[float, ...]
    dtypes: tuple[DType, ...]
    examples: int
    seed: int
    profile: str
    device: str = "cpu"
    config: str = ""
    expect: Expectations = NOTHING_EXPECTED
    strict_expectations: bool = False
    settings: tuple[TargetSettings, ...] = ()
    strict: bool = False
    python: str = field(default_factory=lambda: sys.executable)
    timeout: float = 60.0
    memory: float = DEFAULT_MEMORY
    offline: bool = False
    jobs: int = 1
    large: bool = False

    @classmethod
    def of(
        cls,
        targets: Sequence[str],
        *,
        profile: str = "ci",
        loss_types: str | None = None,
        levels: str | None = None,
        betas: str | None = None,
        dtypes: str | None = None,
        examples: int | None = None,
        seed: int | None = None,
        device: str = "cpu",
        config: str = "",
        expect: Expectations = NOTHING_EXPECTED,
        strict_expectations: bool = False,
        settings: tuple[TargetSettings, ...] = (),
        strict: bool = False,
        python: Path | None = None,
        timeout: float = 60.0,
        memory: float = DEFAULT_MEMORY,
        offline: bool = False,
        jobs: int = 1,
        large: bool | None = None,
    ) -> Plan:
        """Read what a command line says; lists are separated by commas, None takes the profile's.

        Raises `UsageError` naming what is unknown or out of range and what is taken.
        """
        if not targets:
            raise UsageError(
                "no target given, and no lossgate.toml here that names one",
                "lossgate targets lists what can be tested here",
            )
        if profile not in PROFILES:
            raise unknown("profile", profile, PROFILES)
        chosen = PROFILES[profile]
        if seed is None:
            seed = chosen.seed if chosen.seed is not None else int.from_bytes(os.urandom(4), "big")
        if seed < 0:
            raise UsageError(f"--seed: got {seed}, takes an integer of at least 0")
        examples = chosen.examples if examples is None else examples
        if not 1 <= examples <= MOST_EXAMPLES:
            raise UsageError(f"--examples: got {examples}, takes an integer from 1 to {MOST_EXAMPLES}")
        if not 1 <= jobs <= MOST_JOBS:
            raise UsageError(f"--jobs: got {jobs}, takes an integer from 1 to {MOST_JOBS}")
        if not (timeout > 0 and math.isfinite(timeout)):
            raise UsageError(f"--timeout: got {timeout:g}, takes seconds above 0")
        if not (memory > 0 and math.isfinite(memory)):
            raise UsageError(f"--memory: got {memory:g}, takes gigabytes above 0")
        chosen_betas = _listed(betas, chosen.betas, "beta", _beta)
        chosen_dtypes = _listed(dtypes, [DTYPES[name] for name in chosen.dtypes], "dtype", _dtype)
        for dtype in chosen_dtypes:
            if max(chosen_betas) > dtype.largest**0.5:
                raise UsageError(f"--beta: {max(chosen_betas):g} is too large for {dtype.name}: products overflow")
        return cls(
            targets=tuple(dict.fromkeys(targets)),
            loss_types=_listed(loss_types, tuple(LossType), "loss type", _named(LossType)),
            levels=_listed(levels, tuple(Level), "level", _named(Level)),
            betas=chosen_betas,
            dtypes=chosen_dtypes,
            examples=examples,
            seed=seed,
            profile=profile,
            device=device,
            config=config,
            expect=expect,
            strict_expectations=strict_expectations,
            settings=settings,
            strict=strict,
            python=str(python) if python is not None else sys.executable,
            timeout=timeout,
            memory=memory,
            offline=offline,
            jobs=jobs,
            large=chosen.large if large is None else large,
        )

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], jobs: int) -> Plan:
        """The plan of a run that is resumed, from the record of the run. How many jobs there are is free.

        Raises `KeyError`, `TypeError` or `ValueError` when the record is not one that `as_facts` wrote.
        """
        lists = [facts[name] for name in ("requested", "loss_types", "levels", "betas", "dtypes")]
        if not all(lists) or not 1 <= int(facts["examples"]) <= MOST_EXAMPLES or int(facts["seed"]) < 0:
            raise ValueError("a list is empty, or a number out of range")
        return cls(
            targets=tuple(facts["requested"]),
            loss_types=tuple(map(LossType, facts["loss_types"])),
            levels=tuple(map(Level, facts["levels"])),
            betas=tuple(_beta(str(beta)) for beta in facts["betas"]),
            dtypes=tuple(DTYPES[name] for name in facts["dtypes"]),
            examples=int(facts["examples"]),
            seed=int(facts["seed"]),
            profile=str(facts["profile"]),
            device=str(facts["device"]),
            config=str(facts["config"]),
            expect=Expectations.from_facts(facts["expect"]),
            strict_expectations=bool(facts["strict_expectations"]),
            settings=tuple(TargetSettings(**entry) for entry in facts["settings"]),
            strict=bool(facts["strict"]),
            python=str(facts["python"]),
            timeout=float(facts["timeout"]),
            memory=float(facts["memory"]),
            offline=bool(facts["offline"]),
            jobs=jobs,
            large=bool(facts["large"]),
        )

    def settings_of(self, target: str) -> TargetSettings:
        """What is said of one of the targets."""
        return next((one for one in self.settings if one.word == target), TargetSettings.of(target))

    def as_facts(self) -> dict[str, Any]:
        """The plan as JSON data for the record of the run."""
        return {
            "requested": list(self.targets),
            "loss_types": [str(loss_type) for loss_type in self.loss_types],
            "levels": [str(level) for level in self.levels],
            "betas": list(self.betas),
            "dtypes": [dtype.name for dtype in self.dtypes],
            "examples": self.examples,
            "seed": self.seed,
            "profile": self.profile,
            "device": self.device,
            "strict": self.strict,
            "config": self.config,
            "expect": self.expect.as_facts(),
            "strict_expectations": self.strict_expectations,
            "settings": [entry.as_facts() for entry in self.settings],
            "python": self.python,
            "timeout": self.timeout,
            "memory": self.memory,
            "offline": self.offline,
            "large": self.large,
        }


def _listed(text: str | None, default: Iterable[T], kind: str, read: Callable[[str], T]) -> tuple[T, ...]:
    if text is None:
        return tuple(default)
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"no {kind} given: takes one or more, separated by commas")
    return tuple(dict.fromkeys(read(word) for word in words))


def _named(kind: type[LossType] | type[Level]) -> Callable[[str], Any]:
    label = "loss type" if kind is LossType else "level"

    def read(word: str) -> LossType | Level:
        if word not in set(kind):
            error = unknown(label, word, kind)
            raise UsageError(error.message, _ELSEWHERE.get(word, error.hint))
        return kind(word)

    return read


def _dtype(word: str) -> DType:
    if word not in DTYPES:
        raise unknown("dtype", word, DTYPES)
    return DTYPES[word]


def _beta(word: str) -> float:
    try:
        beta = float(word)
    except ValueError:
        beta = math.nan
    if not (beta >= 0 and math.isfinite(beta)):
        raise UsageError(f"--beta: got {word!r}, takes numbers of at least 0, separated by commas")
    return beta
