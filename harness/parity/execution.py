"""An execution: a target on a device, compiled or not, with some threads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

from harness.asking import Contestant
from harness.client import WorkerClient
from harness.errors import UsageError, unknown
from harness.judging import contestant
from harness.outcome import TargetUnavailable
from harness.plan import Plan
from harness.releases.overlay import overlay_of

EAGER: Final = "eager"
COMPILERS: Final = (EAGER, "inductor")
ALL_THREADS: Final = "all"
MOST_THREADS: Final = 1024


@dataclass(frozen=True)
class Execution:
    """Which target, on which torch device, through which compiler ("eager": none), with how many threads."""

    target: str
    device: str = "cpu"
    compiler: str = EAGER
    threads: int = 1

    @property
    def is_compiled(self) -> bool:
        """Whether its calls go through a compiler."""
        return self.compiler != EAGER

    def named(self, among: Iterable[Execution]) -> str:
        """The shortest name that tells it from the others it stands among."""
        others = tuple(among)

        def differ(field: str) -> bool:
            return len({getattr(one, field) for one in others}) > 1

        words = [self.target] if differ("target") else []
        words.append(self.device)
        if differ("compiler"):
            words.append(self.compiler)
        if differ("threads"):
            words.append(f"{self.threads} thread{'s' if self.threads > 1 else ''}")
        return " ".join(words)


def executions_of(
    target: str, against: str | None, devices: str, compilers: str, threads: str
) -> tuple[Execution, ...]:
    """The reference, then every other combination of what a command line lists.

    The reference is the target that it is held against, in the first way alone; without one, the first way. Raises
    `UsageError`.
    """
    ways = [
        Execution(target, device, compiler, count)
        for device, compiler, count in product(
            _words("devices", devices), map(_compiler, _words("compile", compilers)), _threads(threads)
        )
    ]
    if against is not None and against != target:
        ways.insert(0, replace(ways[0], target=against))
    return tuple(dict.fromkeys(ways))


def _words(option: str, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError(f"--{option}: got none, takes one or more, separated by commas")
    return words


def _compiler(word: str) -> str:
    if word not in COMPILERS:
        raise unknown("compiler", word, COMPILERS)
    return word


def _threads(text: str) -> Iterator[int]:
    for word in _words("threads", text):
        if word == ALL_THREADS:
            yield len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            continue
        count = 0
        with suppress(ValueError):
            count = int(word)
        if not 1 <= count <= MOST_THREADS:
            raise UsageError(f"--threads: got {word!r}, takes integers from 1 to {MOST_THREADS}, or {ALL_THREADS}")
        yield count


def client_of(plan: Plan, execution: Execution) -> WorkerClient:
    """The client of an execution, not started yet. Raises `TargetUnavailable` where there is no such release."""
    settings = plan.settings_of(execution.target)
    python = settings.python or plan.python
    overlay = overlay_of(settings.name, python, offline=plan.offline)
    options = {"device": execution.device, "threads": str(execution.threads)}
    if execution.is_compiled:
        options["compile"] = execution.compiler
    if settings.loss_type or len(plan.loss_types) == 1:
        options["loss_type"] = settings.loss_type or str(plan.loss_types[0])
    return WorkerClient(
        python,
        overlay.target,
        options,
        cwd=Path.cwd(),
        timeout=plan.timeout,
        path=overlay.folders,
        # Drivers of other devices reserve far more addresses than they use.
        memory=int(plan.memory * 2**30) if execution.device == "cpu" else None,
    )


def contestant_of(plan: Plan, execution: Execution, client: WorkerClient) -> Contestant | str:
    """The execution, ready to be asked; or why it cannot be: no such device, nothing to compile.

    Raises `TargetUnavailable` when the target does not start for another reason.
    """
    try:
        return contestant(replace(plan, device=execution.device), execution.target, client)
    except TargetUnavailable as failure:
        if failure.kind != "execution":
            raise
        return failure.message
