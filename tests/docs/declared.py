"""What adapters declare of their libraries, as the tables of docs/conventions.md.

    python -m tests.docs.declared

opens the installed TRL and releases of the other libraries from lossgate's cache, and prints the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from cases.conventions import Conventions
from cases.spec import LossType
from harness.client import WorkerClient
from harness.outcome import TargetFacts
from harness.releases.overlay import overlay_of

TARGETS: Final = ("trl", "liger==0.8.5", "verl==0.9.1", "openrlhf==0.11.2", "unsloth==2026.10.9")

_USUAL: Final = Conventions()
_YES: Final = "yes"


def opened() -> list[TargetFacts]:
    """The facts of each, two at a time. Raises `TargetUnavailable` where one is not there."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(_facts, TARGETS))


def _facts(name: str) -> TargetFacts:
    overlay = overlay_of(name, sys.executable, offline=True)
    with WorkerClient(sys.executable, overlay.target, path=overlay.folders) as client:
        return client.facts


def _between(bounds: tuple[float | None, float | None]) -> str:
    low, high = bounds
    if low is None and high is None:
        return "none"
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"{low:g} to {high:g}"


def _size(bound: float | None) -> str:
    return "none" if bound is None else f"{-bound:g} to {bound:g}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _word(value: Any) -> str:
    return str(value).replace("_", " ")


_ROWS: Final[tuple[tuple[str, Callable[[Any], str]], ...]] = (
    ("empty_rows", _word),
    ("window_tokens", _word),
    ("log_ratio_bounds", _between),
    ("dual_clip", _number),
    ("sequence_gradient", _word),
    ("cispo_clip", _word),
    ("kl_log_ratio_bound", _size),
    ("kl_bound", _size),
    ("kl_bounded", _word),
    ("kl_aggregation", _word),
    ("denominator_epsilon", _number),
    ("padding", lambda promises: ", ".join(map(str, promises))),
)


def conventions(targets: Sequence[TargetFacts]) -> str:
    """One row a convention: what each library does, and in brackets where it does otherwise."""
    return _table(
        ("convention", *(one.label for one in targets)),
        ((f"`{name}`", *(_cell(one, name, told) for one in targets)) for name, told in _ROWS),
    )


def _cell(facts: TargetFacts, name: str, told: Callable[[Any], str]) -> str:
    if name == "kl_bounded" and facts.conventions.kl_bound is facts.conventions.kl_log_ratio_bound is None:
        return ""
    own = getattr(facts.conventions, name)
    others: dict[str, list[str]] = {}
    for loss, exception in facts.conventions_by_loss.items():
        value = getattr(exception, name)
        if value != own:
            others.setdefault(told(value), []).append(loss)
    exceptions = "; ".join(f"{words}: {_losses(losses)}" for words, losses in others.items())
    words = told(own) if own == getattr(_USUAL, name) else f"**{told(own)}**"
    return f"{words} ({exceptions})" if exceptions else words


def _losses(losses: Sequence[str]) -> str:
    by_level: dict[str, list[str]] = {}
    for loss in losses:
        name, _, level = loss.partition("/")
        by_level.setdefault(level, []).append(f"`{name}`")
    return "; ".join(
        f"{', '.join(names)}{f' at {level} level' if level else ''}" for level, names in by_level.items()
    )


def supported(targets: Sequence[TargetFacts]) -> str:
    """One row a loss, then one an option."""
    options = dict.fromkeys(option for one in targets for option in one.supports.options)

    def rows() -> Iterator[tuple[str, ...]]:
        for loss_type in LossType:
            yield f"`{loss_type}`", *(_has(loss_type in one.supports.loss_types) for one in targets)
        for option in options:
            yield f"option `{option}`", *(_has(option in one.supports.options) for one in targets)

    return _table(("loss or option", *(one.label for one in targets)), rows())


def _has(there: bool) -> str:
    return _YES if there else ""


def _table(head: Sequence[str], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: Final[Mapping[str, Callable[[Sequence[TargetFacts]], str]]] = {
    "conventions": conventions,
    "supported": supported,
}

if __name__ == "__main__":
    found = opened()
    print("\n\n".join(made(found) for made in TABLES.values()))
