"""Every seeded fault hunted in every dtype of a profile, several at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby

from harness.errors import UsageError, did_you_mean
from harness.exit_codes import ExitCode
from harness.faults.hunt import Fate, Hunt, Hunted
from harness.faults.worker import PREFIX, About, FaultWorker
from harness.generation import schedule
from harness.plan import Plan

Seen = Callable[[Hunted, int], None]
"""Takes what became of a fault in a dtype, and how many of these there will be."""


@dataclass(frozen=True)
class Fault:
    """What became of one fault, dtype by dtype."""

    about: About
    found: tuple[Hunted, ...]

    @property
    def fails(self) -> bool:
        """Whether it escaped in a dtype in which it should be caught, or is caught and changes nothing."""
        return any(one.fate.fails for one in self.found)

    @property
    def counts(self) -> bool:
        """Whether it can be caught in any of the dtypes."""
        return any(one.fate in (Fate.CAUGHT, Fate.ESCAPED) for one in self.found)


@dataclass(frozen=True)
class Survey:
    """What became of all faults."""

    faults: tuple[Fault, ...]

    @property
    def score(self) -> str:
        """One line, such as "108 of 108 faults caught, 5 equivalent"."""
        counted = [fault for fault in self.faults if fault.counts]
        caught = sum(not fault.fails for fault in counted)
        parts = [f"{caught} of {len(counted)} fault{'' if len(counted) == 1 else 's'} caught"]
        equivalent = sum(fault.about.equivalent for fault in self.faults)
        large = sum(any(one.fate is Fate.LARGE for one in fault.found) for fault in self.faults)
        beyond = len(self.faults) - len(counted) - equivalent - large
        alarms = sum(fault.about.equivalent and fault.fails for fault in self.faults)
        if equivalent:
            parts.append(f"{equivalent} equivalent")
        if alarms:
            parts.append(f"{alarms} of these taken for a fault")
        if large:
            parts.append(f"{large} that only --large shows")
        if beyond:
            parts.append(f"{beyond} that show in no dtype asked for")
        return ", ".join(parts)

    @property
    def exit_code(self) -> ExitCode:
        """1 where a fault that should be caught escapes, or one that changes nothing does not."""
        return ExitCode.DIVERGES if any(fault.fails for fault in self.faults) else ExitCode.CONFORMS


def survey(plan: Plan, only: Sequence[str], seen: Seen) -> Survey:
    """Hunt the faults of these names, or all, `plan.jobs` at a time.

    Raises `UsageError` for a name that is unknown, `TargetUnavailable` when a fault does not start.
    """
    with ExitStack() as stack:
        first = stack.enter_context(FaultWorker(plan.python))
        names = _named(only, first.names())
        found = list(_hunted(plan, names, [first], stack, seen))
    found.sort(key=lambda one: names.index(one.about.name))
    groups = groupby(found, key=lambda one: one.about)
    return Survey(tuple(Fault(about, tuple(group)) for about, group in groups))


def _named(only: Sequence[str], known: Sequence[str]) -> list[str]:
    names = [name.removeprefix(PREFIX) for name in only]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"known here: {', '.join(known)}"
            raise UsageError(f"no fault named {name!r}", hint)
    return [name for name in known if name in names or not names]


def _hunted(
    plan: Plan, names: Sequence[str], idle: list[FaultWorker], stack: ExitStack, seen: Seen
) -> Iterator[Hunted]:
    entries = schedule(plan.examples, plan.seed, plan.large)
    stopped = threading.Event()

    def one(hunt: Hunt, name: str) -> Hunted:
        # Each thread has a process to itself while it hunts.
        client = idle.pop() if idle else stack.enter_context(FaultWorker(plan.python))
        found = hunt.hunted(client.open(name), client)
        idle.append(client)
        return found

    with ThreadPoolExecutor(plan.jobs) as pool:
        try:
            # A dtype at a time: what is right is kept as long as it is needed.
            for dtype in plan.dtypes:
                hunt = Hunt(plan, dtype, entries, stopped)
                for found in pool.map(lambda name, hunt=hunt: one(hunt, name), names):
                    seen(found, len(names) * len(plan.dtypes))
                    yield found
        except BaseException:
            stopped.set()
            pool.shutdown(cancel_futures=True)
            raise
