"""What a comparison is made of: two runs on disk, or one made now of two targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.errors import UsageError, did_you_mean
from reports.comparison import Comparison, Side, compared
from reports.run import Run

_CASES: Final = ("lossgate", "profile", "seed", "examples")
"""What of a run decides which cases are drawn, and how they are judged."""


def is_run(word: str) -> bool:
    """Whether a word of the command line is the folder of a run, not a target."""
    return (Path(word) / "run.json").is_file()


def of_runs(base: Path, head: Path, anyway: bool) -> list[Comparison]:
    """The targets of one run against those of another, in pairs of one name.

    Raises `UsageError` where a run is not complete, where they drew other cases and it is not asked for `anyway`,
    and where no target has its like on the other side; `RunStoreError` when one cannot be read.
    """
    runs = Run.load(base), Run.load(head)
    for run in runs:
        if not run.complete:
            raise UsageError(
                f"{run.path} did not come to its end", f"lossgate run --resume {run.path} finishes it"
            )
    differing = list(_differing(*runs))
    if differing and not anyway:
        raise UsageError(
            f"the two runs cannot be compared as they are: {'; '.join(differing)}",
            "--anyway compares the cases that both have",
        )
    return [compared(*sides, same_schedule=not differing) for sides in _paired(*runs)]


def of_targets(run: Run) -> Comparison:
    """The two targets of one run, the first against the second."""
    base, head = run.facts["targets"]
    return compared(Side(run, base), Side(run, head), same_schedule=True)


def _differing(base: Run, head: Run) -> Iterator[str]:
    for name in _CASES:
        ours, theirs = base.facts.get(name), head.facts.get(name)
        if ours != theirs:
            yield f"{name} {ours} here, {theirs} there"


def _paired(base: Run, head: Run) -> Iterator[tuple[Side, Side]]:
    ours, theirs = list(base.facts.get("targets", {})), list(head.facts.get("targets", {}))
    if len(ours) == len(theirs) == 1:
        yield Side(base, ours[0]), Side(head, theirs[0])
        return
    pairs = [(one, other) for one in ours for other in theirs if _name(one) == _name(other)]
    if not pairs:
        raise UsageError(
            f"no target is in both runs: {base.path} has {', '.join(ours)}, {head.path} has {', '.join(theirs)}",
            did_you_mean(_name(ours[0]), [_name(other) for other in theirs]) if ours else "",
        )
    for one, other in pairs:
        yield Side(base, one), Side(head, other)


def _name(label: str) -> str:
    """What a label names, without the version."""
    return label.split(" ")[0]
