"""What a report says about the run as a whole. Every fact is optional: what is there is shown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from reports.schema import CELL_COLUMNS

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
    for line, found in _padding(facts, target).items():
        cells = found["held"] + found["leaked"]
        promised = "promised" if found["promised"] else "not promised"
        where = f"{found['leaked']} of {cells} cells, in {', '.join(found['tensors'])}"
        seen = f"change the answer in {where}" if found["leaked"] else f"ignored, cells checked: {cells}"
        sentences.append(f"{line} values at masked positions ({promised}): {seen}")
    return sentences


def padding_summary(facts: Facts, target: str) -> str:
    """Padding hygiene of one target in one sentence; "" where it was not checked."""
    kinds: dict[str, list[str]] = {}
    for line, found in _padding(facts, target).items():
        kinds.setdefault(_SEEN[bool(found["leaked"]), bool(found["promised"])], []).append(line)
    parts = [f"{', '.join(lines)} {seen}" for seen, lines in kinds.items()]
    return f"values at masked positions: {'; '.join(parts)}" if parts else ""


def strength_summary(facts: Facts, target: str) -> str:
    """How many formulas the cases told apart from those asked for, at least, in one sentence; "" where unknown."""
    cells = facts.get("strength", {}).get(target, [])
    if not cells:
        return ""
    of = f"{max(cell['formulas'] for cell in cells):,} other formulas told apart"
    weakest = min(cells, key=lambda cell: cell["told"] / max(cell["formulas"], 1))
    if weakest["told"] == weakest["formulas"]:
        return f"strength: all of up to {of} in every cell"
    # Rounded down: 100 % is said where it is all of them.
    share = math.floor(1000 * weakest["told"] / weakest["formulas"]) / 10
    term = "with" if weakest["kl"] else "without"
    where = f"{weakest['loss_type']} {weakest['level']} {term} KL term"
    count = f"{weakest['told']:,} of {weakest['formulas']:,}"
    return f"strength: at least {share:g} % of up to {of} in every cell; weakest: {where}, {count}"


def corpus_case(facts: Facts, case_id: str) -> str:
    """The name of the corpus case that a witness is, or was shrunk from; "" where it is none."""
    return str(facts.get("corpus", {}).get(case_id, ""))


def not_supported(facts: Facts, target: str) -> str:
    """What was asked for and a target does not have, in words; "" where it has all."""
    supports = facts.get("targets", {}).get(target, {}).get("supports", {})
    parts = []
    for name, what in (("loss_types", "loss type"), ("levels", "level"), ("dtypes", "dtype")):
        lacking = [asked for asked in facts.get(name, []) if name in supports and asked not in supports[name]]
        if lacking:
            parts.append(f"{what} {', '.join(lacking)}")
    return f"not supported: {'; '.join(parts)}" if parts else ""


def conventions_summary(facts: Facts, target: str) -> str:
    """The conventions that a target is judged under, where they are not the usual ones; "" where they are."""
    about = facts.get("targets", {}).get(target, {})
    usual = {name: value for name, value in about.get("conventions", {}).items() if name != "padding"}
    parts = [f"{_words(name)} {_text(value)}" for name, value in usual.items()]
    exceptions: dict[str, list[str]] = {}
    for loss, own in about.get("conventions_by_loss", {}).items():
        for name, value in own.items():
            exceptions.setdefault(f"{_words(name)} {_text(value)}", []).append(loss)
    parts += [f"{words} ({', '.join(losses)})" for words, losses in exceptions.items()]
    return f"conventions: {'; '.join(parts)}" if parts else ""


def findings(facts: Facts) -> dict[tuple[Any, ...], str]:
    """What is wrong with each failing cell, in one line, by the cell's columns."""
    return {
        tuple(finding[column] for column in CELL_COLUMNS): str(finding["signature"])
        for finding in facts.get("findings", [])
    }


def _words(name: str) -> str:
    return name.replace("_", " ")


_SEEN: Final = {
    (False, True): "ignored as promised",
    (False, False): "ignored",
    (True, True): "CHANGE THE ANSWER against the promise",
    (True, False): "change the answer (not promised to be ignored)",
}


def _padding(facts: Facts, target: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = facts.get("padding", {}).get(target, {})
    return found


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        is_unset = bool(value) and all(part is None for part in value)
        return "none" if is_unset else ", ".join(_text(part) for part in value)
    return "none" if value is None else str(value)
