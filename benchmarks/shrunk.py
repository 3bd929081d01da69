"""How small the case is that each seeded fault is shown with.

    python -m benchmarks.shrunk                     all of them, as a Markdown table; exit 1 where one is larger
    python -m benchmarks.shrunk no_clip kl_sign     some

Each fault is hunted in the dtypes of the `ci` profile; the first case that catches it is made small, as in a run.
"""

from __future__ import annotations

import sys
from threading import Event
from typing import Final

from cases.case import Case
from harness.asking import Contestant
from harness.faults.hunt import Fate, Hunt, Hunted
from harness.faults.worker import FaultWorker
from harness.generation import schedule
from harness.plan import Plan
from harness.shrink import shrink

MOST_TOKENS: Final = 4


def main(names: list[str]) -> int:
    """Print the table."""
    plan = Plan.of(["fault:none"])
    entries = schedule(plan.examples, plan.seed)
    hunts = [Hunt(plan, dtype, entries, Event()) for dtype in plan.dtypes]
    large = []
    print("| fault | B x T | tokens | rows with tokens |")
    print("|---|---|---:|---:|")
    with FaultWorker(plan.python) as client:
        for name in names or client.names():
            found = next((one for hunt in hunts if (one := hunt.hunted(client.open(name), client)).witness), None)
            if found is None or found.fate is not Fate.CAUGHT:
                continue
            batch = _smallest(found, Contestant(client, client.facts, plan.device)).batch
            filled = int((batch.lengths > 0).sum())
            print(f"| `{name}` | {batch.rows} x {batch.columns} | {batch.tokens} | {filled} |", flush=True)
            if batch.tokens > MOST_TOKENS:
                large.append(name)
    print(f"\n{len(large)} above {MOST_TOKENS} tokens{': ' if large else ''}{', '.join(large)}")
    return int(bool(large))


def _smallest(found: Hunted, one: Contestant) -> Case:
    witness = found.witness
    assert witness is not None, "what is caught has a case that caught it"
    verdict = one.judged(witness).verdict
    # A leak at masked positions is shown with the case as it is.
    return shrink(witness, lambda case: one.judged(case).verdict is verdict) if verdict.fails else witness


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
