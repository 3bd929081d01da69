"""What is said of every seeded fault: the fault in its own words beside the signature of its failing cells.

    python -m benchmarks.signatures                     all of them, as a Markdown table
    python -m benchmarks.signatures no_clip kl_sign     some

Each fault is judged in float32 with beta 0.04, in at most four of its cells.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice, product

from harness.asking import Contestant
from harness.engine import as_facts
from harness.events import CellExplained
from harness.explaining import explained
from harness.generation import Scheduled, schedule
from harness.judging import judged_entry, open_contestants
from harness.plan import Plan
from harness.tally import Tally
from harness.worker.targets.faults import FAULTS

EXAMPLES = 24
MOST_CELLS = 4


def main(names: list[str]) -> None:
    """Print the table."""
    wanted = [fault for fault in FAULTS if not fault.equivalent and (not names or fault.name in names)]
    entries = schedule(EXAMPLES, 0)
    print("| fault | what is wrong | what is said | all numbers explained |")
    print("|---|---|---|---|")
    explained_faults = 0
    for fault in wanted:
        found = list(_explained(f"fault:{fault.name}", entries))
        texts = Counter(one.signature for one in found)
        said = "; ".join(f"{text} ({count})" for text, count in texts.most_common(3)) or "nothing failed"
        whole = sum(one.explains for one in found)
        explained_faults += bool(found) and whole == len(found)
        print(f"| `{fault.name}` | {fault.wrong} | {said} | {whole} of {len(found)} cells |", flush=True)
    print(f"\n{explained_faults} of {len(wanted)} faults are explained to the last number in every cell.")


def _explained(target: str, entries: tuple[Scheduled, ...]) -> Iterator[CellExplained]:
    with ExitStack() as stack:
        plan = Plan.of([target], dtypes="float32", betas="0.04")
        (one,) = open_contestants(plan, stack)
        for loss_type, level in islice(_cells(plan, one), MOST_CELLS):
            cell = Plan.of([target], dtypes="float32", betas="0.04", loss_types=loss_type, levels=level)
            tally = Tally({one.facts.label: as_facts(one.facts)})
            for entry in entries:
                for judged in judged_entry(cell, entry, [one]):
                    tally.add(judged)
            yield from explained(tally.suspects, [one])


def _cells(plan: Plan, one: Contestant) -> Iterator[tuple[str, str]]:
    """Losses and levels that the target has, in turn: one of each loss, before the other level."""
    for level, loss_type in product(plan.levels, plan.loss_types):
        if one.takes(loss_type, level, plan.dtypes[0]):
            yield str(loss_type), str(level)


if __name__ == "__main__":
    main(sys.argv[1:])
