"""One target judged alone, into the folder of a run of its own: what stands in it, or why nothing does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.engine import execute
from harness.exit_codes import ExitCode
from harness.outcome import TargetUnavailable
from harness.plan import Plan
from harness.preparation import Prepared, resumed
from harness.provenance import provenance
from harness.recording import Recorder
from reports.columns import Column
from reports.run import Run

_PATH: Final = "PYTHONPATH"


@dataclass(frozen=True)
class ImportPlace:
    """Where a target is looked for, instead of in the current folder: `path` comes before what is installed.

    `cwd` is the folder that its process works in; both are absolute.
    """

    cwd: Path
    path: tuple[Path, ...]


@dataclass(frozen=True)
class Task:
    """A plan of one target, the folder for its run, and what it is called among others."""

    name: str
    plan: Plan
    folder: Path
    place: ImportPlace | None = None


def judged_alone(task: Task) -> Column:
    """Judge, or finish a run that was cut short; a run that is complete is read.

    A target that does not start is a column that says so. What `place` says holds for this whole process while it
    judges.

    Raises `UsageError` when another lossgate began the run, `RunStoreError` when it cannot be read or written.
    """
    folder = task.folder.absolute()
    if not _is_complete(folder):
        prepared = _prepared(task.plan, folder)
        try:
            with _in_place(task.place):
                ended = execute(prepared.plan, prepared.recorder, prepared.earlier)
        except TargetUnavailable as failure:
            prepared.recorder.discard()
            return Column(task.name, why_not=failure.message.splitlines()[0])
        if ended is ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
    return Column.of(task.name, Run.load(folder), folder.name)


def _is_complete(folder: Path) -> bool:
    return (folder / "run.json").exists() and Run.load(folder).complete


def _prepared(plan: Plan, folder: Path) -> Prepared:
    if (folder / "run.json").exists():
        return resumed(folder, plan.jobs)
    # Left by a process that was killed before it had begun.
    shutil.rmtree(folder, ignore_errors=True)
    return Prepared(plan, Recorder.start(folder, {**provenance(), **plan.as_facts()}))


@contextmanager
def _in_place(place: ImportPlace | None) -> Iterator[None]:
    if place is None:
        yield
        return
    before, path = Path.cwd(), os.environ.get(_PATH)
    os.chdir(place.cwd)
    os.environ[_PATH] = os.pathsep.join(filter(None, (*map(str, place.path), path)))
    try:
        yield
    finally:
        os.chdir(before)
        if path is None:
            del os.environ[_PATH]
        else:
            os.environ[_PATH] = path
