"""Before a run: a new one in a folder of its own, or an old one that was cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.config import Config
from harness.earlier import NOTHING, Earlier
from harness.errors import UsageError
from harness.plan import Plan
from harness.provenance import provenance
from harness.recording import Recorder, fresh_folder
from reports.run import Run

RUNS: Final = Path("lossgate-runs")


@dataclass(frozen=True)
class Prepared:
    """All that carrying out a run takes; `note` is what its user should know before it begins, or ""."""

    plan: Plan
    recorder: Recorder
    earlier: Earlier = NOTHING
    note: str = ""


def fresh(out: Path | None, config: Path | None, targets: Sequence[str], **options: Any) -> Prepared:
    """A new run in `out`, or in a new folder below `lossgate-runs`; `options` are those of `Plan.of`.

    Without `targets`, those of the configuration are judged.

    Raises `UsageError` for wrong options, `RunStoreError` when the folder cannot be written.
    """
    configured = Config.load(config)
    plan = Plan.of(
        targets or configured.targets,
        config=str(configured.file),
        settings=configured.settings,
        expect=configured.expect,
        **options,
    )
    path = out if out is not None else fresh_folder(RUNS)
    return Prepared(plan, Recorder.start(path, {**provenance(), **plan.as_facts()}), note=configured.note)


def resumed(path: Path, jobs: int) -> Prepared:
    """A run that was cut short, as it was asked for.

    Raises `UsageError` when it is complete or another lossgate began it, `RunStoreError` when it cannot be read.
    """
    run = Run.load(path)
    if run.complete:
        raise UsageError(f"{path} is complete: there is nothing to resume")
    earlier = Earlier.of(run)
    earlier.check_provenance(provenance())
    try:
        plan = Plan.from_facts(run.facts, jobs)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{path / 'run.json'} does not say what was asked for ({error!r})", "start a new run"
        ) from error
    return Prepared(plan, Recorder.resume(run), earlier)
