"""What a report says about the run as a whole. Every fact is optional: what is there is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Facts = Mapping[str, Any]

INCOMPLETE: Final = "the run did not come to its end; cells and cases are missing, and nothing here is a pass"

_LABELS: Final = {
    "lossgate": "lossgate",
    "profile": "profile",
    "seed": "seed",
    "examples": "examples per cell",
    "case_set": "case set",
    "platform": "platform",
    "started": "started",
    "exit_code": "exit code",
}


@dataclass(frozen=True)
class TargetFacts:
    """One target as it was tested: versions, what was replaced in it, and the conventions it declares."""

    label: str
    versions: str
    replaced: str
    conventions: str


def is_complete(facts: Facts) -> bool:
    """Whether the run came to its end. A run that does not say so did not."""
    return facts.get("complete") is True


def headline(facts: Facts) -> list[tuple[str, str]]:
    """Name and text of the facts that are there, in a fixed order."""
    return [(label, _text(facts[name])) for name, label in _LABELS.items() if facts.get(name) is not None]


def targets(facts: Facts) -> list[TargetFacts]:
    """The targets, in the order in which they were asked for."""
    return [
        TargetFacts(
            label=label,
            versions=_text(about.get("versions", {})),
            replaced=_text(about.get("replaced", [])),
            conventions=_text(about.get("conventions", {})),
        )
        for label, about in facts.get("targets", {}).items()
    ]


def padding_lines(facts: Facts, target: str) -> list[str]:
    """Padding hygiene of one target, a sentence a line of it; none where it was not checked."""
    sentences = []
    for line, found in facts.get("padding", {}).get(target, {}).items():
        cells = found["held"] + found["leaked"]
        promised = "promised" if found["promised"] else "not promised"
        if found["leaked"]:
            where = f"{found['leaked']} of {cells} cells, in {', '.join(found['tensors'])}"
            sentences.append(f"padding, {line} ({promised}): changes the answer in {where}")
        else:
            sentences.append(f"padding, {line} ({promised}): ignored in all {cells} cells")
    return sentences


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text(part) for part in value)
    return str(value)
