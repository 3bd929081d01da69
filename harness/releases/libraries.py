"""The libraries that releases can be fetched of, and what each release needs beside itself.

What is laid over with a release is pinned, so that the same name means the same code everywhere. None of it is
torch: a release runs on the torch of the interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

ANY: Final = SpecifierSet()


@dataclass(frozen=True)
class Companions:
    """Distributions that some releases of a library need laid over some interpreters.

    All of `pins` are laid over, and each of `lacking` where the interpreter has none of that name. With `over`, a
    distribution and versions of it, only interpreters that have one of those are meant.
    """

    releases: SpecifierSet = ANY
    lacking: Mapping[str, str] = field(default_factory=dict)
    pins: Mapping[str, str] = field(default_factory=dict)
    over: tuple[str, SpecifierSet] | None = None

    def needed(self, release: Version, installed: Mapping[str, str]) -> dict[str, str]:
        """Those that `release` needs over an interpreter that has `installed`: versions by distribution."""
        if not self.releases.contains(release, prereleases=True):
            return {}
        if self.over is not None:
            name, versions = self.over
            if name not in installed or not versions.contains(installed[name], prereleases=True):
                return {}
        missing = {name: version for name, version in self.lacking.items() if name not in installed}
        return {**self.pins, **missing}


@dataclass(frozen=True)
class Library:
    """A library by its target name.

    `distribution` is its name on a package index, `first` the oldest release that its adapter drives; `requires`
    names what the interpreter itself must have.
    """

    name: str
    about: str
    distribution: str
    first: Version
    requires: tuple[str, ...] = ()
    companions: tuple[Companions, ...] = ()

    @property
    def asked(self) -> set[str]:
        """The distributions whose versions in an interpreter decide what is laid over it."""
        asked = set(self.requires)
        for companions in self.companions:
            asked |= companions.lacking.keys()
            if companions.over is not None:
                asked.add(companions.over[0])
        return asked

    def companions_of(self, release: Version, installed: Mapping[str, str]) -> dict[str, str]:
        """What is laid over with a release on an interpreter that has `installed`: versions by distribution."""
        needed: dict[str, str] = {}
        for companions in self.companions:
            needed |= companions.needed(release, installed)
        return needed


_REQUESTS: Final = {
    "requests": "2.34.2",
    "urllib3": "2.8.0",
    "certifi": "2026.10.19.post1",
    "charset-normalizer": "3.5.3",
    "idna": "3.20",
}
_HTTPX: Final = {
    "httpx": "0.28.1",
    "httpcore": "1.0.9",
    "h11": "0.16.0",
    "anyio": "4.16.0",
    "certifi": "2026.10.19.post1",
    "idna": "3.20",
}

_TRL: Final = Library(
    name="trl",
    about="TRL's GRPOTrainer, through its public compute_loss",
    distribution="trl",
    first=Version("0.14.0"),
    requires=("transformers", "accelerate", "datasets"),
    companions=(
        # transformers 5 makes them believe that vllm and others are installed.
        Companions(
            releases=SpecifierSet("<0.29.1"),
            over=("transformers", SpecifierSet(">=5")),
            pins={
                "transformers": "4.57.6",
                "huggingface_hub": "0.36.2",
                "tokenizers": "0.22.2",
                "datasets": "4.8.5",
                "fsspec": "2026.2.0",
            },
            lacking=_HTTPX,
        ),
        Companions(releases=SpecifierSet("<1.14.2"), lacking=_REQUESTS),
        Companions(
            releases=SpecifierSet("<0.18"),
            lacking={"rich": "15.0.0", "markdown-it-py": "4.3.0", "mdurl": "0.1.2", "Pygments": "2.21.0"},
        ),
    ),
)
_LIGER: Final = Library(
    name="liger",
    about="the GRPO loss of Liger Kernel, LigerFusedLinearGRPOFunction.ppo_loss_fn",
    distribution="liger-kernel",
    first=Version("0.8.0"),
)
_VERL: Final = Library(
    name="verl",
    about="verl's policy losses and KL penalties, as its trainer adds them up",
    distribution="verl",
    first=Version("0.6.0"),
    requires=("transformers", "datasets"),
    companions=(
        Companions(
            lacking={
                "tensordict": "0.10.0",
                "cloudpickle": "3.1.3",
                "pyvers": "0.1.0",
                "omegaconf": "2.4.0",
                "PyYAML": "6.0.4",
            }
        ),
    ),
)
_OPENRLHF: Final = Library(
    name="openrlhf",
    about="OpenRLHF's PolicyLoss, with its KL estimates",
    distribution="openrlhf",
    first=Version("0.8.8"),
    requires=("transformers",),
)
_UNSLOTH: Final = Library(
    name="unsloth",
    about="the GRPO loss of unsloth-zoo, grpo_compute_loss",
    distribution="unsloth-zoo",
    first=Version("2026.7.2"),
    requires=("numpy",),
    companions=(Companions(lacking={"packaging": "26.4"}),),
)

LIBRARIES: Final[Mapping[str, Library]] = MappingProxyType(
    {library.name: library for library in (_TRL, _LIGER, _VERL, _OPENRLHF, _UNSLOTH)}
)
