"""What the configuration says of a target: where it is, what it is called, what it settles.

[target.fork]                               # the word on the command line, and the name in reports
name = "trl"                                # the target it stands for; without it, the word itself
python = "../fork/.venv/bin/python"

[target."my_pkg.losses:grpo_loss"]
loss_type = "grpo"
level = "sequence"
conventions = { dual_clip = 3.0, log_ratio_bounds = [-20, 20] }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from cases.conventions import Conventions
from cases.spec import Level, LossType
from harness.errors import did_you_mean
from harness.outcome import TargetFacts
from harness.toml_place import Place

_TEXTS: Final = ("name", "python", "loss_type", "level")
_KEYS: Final = (*_TEXTS, "conventions")


@dataclass(frozen=True)
class TargetSettings:
    """How one target of a run is reached, and the conventions that its owner declares for it.

    `word` is what it is called; `name` the target that it stands for; `python` its interpreter; `loss_type` the
    loss that a function computes, `level` the only level that it is judged at; "" where the command line says it.
    """

    word: str
    name: str
    python: str = ""
    loss_type: str = ""
    level: str = ""
    conventions: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, word: str) -> TargetSettings:
        """A target that the file says nothing of."""
        return cls(word, word)

    @classmethod
    def read(cls, word: str, data: Any, place: Place) -> TargetSettings:
        """Read one table. Raises `UsageError` naming the file, the line, the entry and the key."""
        if not isinstance(data, Mapping):
            raise place.wrong(f"takes keys {', '.join(_KEYS)}")
        place.check_keys(data, _KEYS)
        for key in _TEXTS:
            if key in data and (not isinstance(data[key], str) or not data[key].strip()):
                raise place.at(key).wrong(f"{key}: got {data[key]!r}, takes a text")
        for key, what, kind in (("loss_type", "loss type", LossType), ("level", "level", Level)):
            said, known = data.get(key, ""), list(map(str, kind))
            if said and said not in known:
                raise place.at(key).wrong(f"no {what} {said!r}", did_you_mean(said, known))
        return cls(
            word=word,
            name=data.get("name", word),
            python=data.get("python", ""),
            loss_type=data.get("loss_type", ""),
            level=data.get("level", ""),
            conventions=_conventions(data.get("conventions", {}), place.at("conventions")),
        )

    def applied(self, facts: TargetFacts) -> TargetFacts:
        """A target's facts under its own name, with the conventions that are declared for it."""
        levels = tuple(level for level in facts.supports.levels if self.level in ("", level))
        return replace(
            facts,
            supports=replace(facts.supports, levels=levels),
            label=facts.label if self.word == self.name else f"{self.word} ({facts.label})",
            conventions=replace(facts.conventions, **self.conventions),
            conventions_by_loss={
                loss: replace(own, **self.conventions) for loss, own in facts.conventions_by_loss.items()
            },
        )

    def as_facts(self) -> dict[str, Any]:
        """The settings as JSON data."""
        return asdict(self)


def _conventions(data: Any, place: Place) -> dict[str, Any]:
    known = [one.name for one in fields(Conventions)]
    if not isinstance(data, Mapping):
        raise place.wrong(f"conventions: takes a table of {', '.join(known)}")
    for key in data:
        if key not in known:
            raise place.at(key).wrong(f"conventions: no convention {key!r}", did_you_mean(key, known))
    try:
        Conventions(**data)
    except ValueError as error:
        raise place.wrong(f"conventions: {error}") from None
    return dict(data)
