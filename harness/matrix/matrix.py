"""A library's releases, each judged alone on the same cases, several at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.errors import UsageError
from harness.exit_codes import ExitCode
from harness.outcome import TargetUnavailable
from harness.plan import Plan
from harness.processes import companions
from harness.provenance import provenance
from harness.releases.release import Release
from harness.releases.span import Span
from harness.single_target import Task, judged_alone
from reports.columns import Column
from reports.matrix import Matrix
from reports.matrix_file import load, save
from reports.store import LOCK, RunStoreError, why

Seen = Callable[[Column, int, int], None]
"""Takes a release that has just been judged, how many are, and how many there will be."""

_MUST_MATCH: Final = ("lossgate", "versions")


def begun(span: Span, text: str, releases: Sequence[Release], plan: Plan) -> Matrix:
    """A matrix in which nothing is judged yet; `plan` has the releases as its targets."""
    facts = {
        "name": span.library.name,
        "range": text,
        "source": "cache" if plan.offline else "index",
        **provenance(),
        **plan.as_facts(),
        "requested": [release.target for release in releases],
    }
    return Matrix(facts, (), complete=False)


def resumed(folder: Path, offline: bool) -> Matrix:
    """A matrix that was cut short, or a complete one; `offline` says that nothing is fetched from now on.

    Raises `RunStoreError` when there is none in `folder`, `UsageError` when another lossgate began it.
    """
    matrix = load(folder)
    if matrix.complete:
        return matrix
    now = provenance()
    for name in _MUST_MATCH:
        if matrix.facts[name] != now[name]:
            raise UsageError(
                f"the matrix began with other {name}: {matrix.facts[name]}, now {now[name]}", "start a new one"
            )
    return replace(matrix, facts={**matrix.facts, "offline": offline or matrix.facts["offline"]})


def completed(matrix: Matrix, folder: Path, jobs: int, seen: Seen) -> Matrix:
    """Judge what a matrix lacks, `jobs` releases at a time, each into the folder of a run of its own.

    matrix.json is written as they come. Releases that could not be judged before are tried again.

    Raises `RunStoreError` when `folder` cannot be written, holds something else or is being written by another,
    `UsageError` when it holds runs of another lossgate, `TargetUnavailable` when a judging process dies.
    """
    if matrix.complete:
        return matrix
    tasks = _tasks(matrix, folder)
    columns: dict[str, Column] = {}
    save(matrix, folder)
    with _locked(folder), companions(min(jobs, len(tasks))) as pool:
        futures = [pool.submit(judged_alone, task) for task in tasks]
        try:
            for future in as_completed(futures):
                column = future.result()
                columns[column.name] = column
                done = [columns[task.name] for task in tasks if task.name in columns]
                matrix = replace(matrix, columns=tuple(done), complete=len(done) == len(tasks))
                save(matrix, folder)
                seen(column, len(done), len(tasks))
        except BrokenProcessPool:
            raise TargetUnavailable(
                "broken", "a judging process died; what was judged is on disk", how_to_go_on(folder)
            ) from None
    return matrix


def how_to_go_on(folder: Path) -> str:
    """The command that finishes a matrix."""
    return f"go on: lossgate matrix --resume {folder}"


def exit_code(matrix: Matrix) -> ExitCode:
    """0 where anything was compared: a matrix reports, and is no gate."""
    if all(column.why_not for column in matrix.columns):
        return ExitCode.UNAVAILABLE
    return ExitCode.CONFORMS if matrix.rows else ExitCode.INCOMPARABLE


def _tasks(matrix: Matrix, folder: Path) -> list[Task]:
    try:
        plan = Plan.from_facts(matrix.facts, jobs=1)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{folder} does not say what was asked for ({error!r})", "start a new matrix") from error
    return [
        Task(str(release.version), replace(plan, targets=(release.target,)), folder / _folder(release))
        for release in map(Release.named, plan.targets)
    ]


def _folder(release: Release) -> str:
    return f"{release.library.name}-{release.version}"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two that write one matrix would judge everything twice; the lock goes with the process that holds it."""
    path = folder / LOCK
    try:
        lock = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    except OSError as error:
        raise RunStoreError(f"cannot lock {folder}: {why(error)}; give a path that can be written") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
        path.unlink(missing_ok=True)
    except BlockingIOError:
        raise RunStoreError(f"{folder} is being written by another lossgate; wait for it") from None
    finally:
        os.close(lock)
