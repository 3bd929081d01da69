"""What `lossgate identify` costs: probes, seconds, and those beside the seconds that importing the target takes.

    python -m benchmarks.identify [TARGET...]

One line a target: how many losses and levels it was asked for, the most probes of any, the seconds of its start,
those of all identification, how many of these the judging process computed (the rest is the target, and other
processes of a busy machine), those of the slowest loss, and the ratio of all identification to the start.
"""

from __future__ import annotations

import sys
import time
from itertools import product

from harness.config import Config
from harness.identification.answers import Sheets
from harness.identification.identify import identify
from harness.judging import client_for, contestant
from harness.plan import Plan

TARGETS = ("trl", "liger==0.8.5", "verl==0.9.1", "openrlhf==0.11.2", "unsloth==2026.10.9", "fault:no_clip")
HEAD = ("target", "losses", "named", "probes", "start s", "identify s", "of it CPU", "slowest s", "ratio")


def main(targets: list[str]) -> None:
    """Measure each target and print the table."""
    print("| " + " | ".join(HEAD) + " |\n|" + "---|" * len(HEAD))
    for target in targets or TARGETS:
        print("| " + " | ".join(_row(target)) + " |", flush=True)


def _row(target: str) -> tuple[str, ...]:
    config = Config.load(None)
    plan = Plan.of([target], settings=config.settings, expect=config.expect)
    begun = time.perf_counter()
    with client_for(plan, target) as client:
        one = contestant(plan, target, client)
        start = time.perf_counter() - begun
        sheets, found, seconds = Sheets(), [], []
        cpu = time.process_time()
        for loss_type, level in product(plan.loss_types, plan.levels):
            if one.takes(loss_type, level, plan.dtypes[1]):
                begun = time.perf_counter()
                found.append(identify(one, loss_type, level, sheets, every=False))
                seconds.append(time.perf_counter() - begun)
    cpu = time.process_time() - cpu
    answered = [one for one in found if one.probes]
    total = sum(seconds)
    return (
        target,
        str(len(answered)),
        str(sum(bool(one.explained) for one in answered)),
        str(max(one.probes for one in answered)),
        f"{start:.1f}",
        f"{total:.1f}",
        f"{cpu:.1f}",
        f"{max(seconds):.1f}",
        f"{total / start:.2f}",
    )


if __name__ == "__main__":
    main(sys.argv[1:])
