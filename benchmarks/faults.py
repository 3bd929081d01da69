"""How many cases each seeded fault takes to be caught, by dtype.

    python -m benchmarks.faults --dtype float64,float32,bfloat16 --cases 144

A fault is put the first cases of the schedule in every cell that it claims. Shown is how many it took until
each loss that it changes was caught in one of its cells, cases without the option that it concerns counted; the
losses that were not are named.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence

from cases.case import Case
from cases.dtypes import DTYPES, DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.client import WorkerClient
from harness.generation import Scheduled, schedule
from harness.judge import judge
from harness.worker.targets.faults import FAULTS, PREFIX
from harness.worker.targets.faults.fault import Fault
from oracles.expectation import Expectation, expect

BETAS = (0.0, 0.04)


@functools.cache
def question(entry: Scheduled, dtype: DType, loss_type: LossType, level: Level, beta: float) -> Case:
    """The case of a description in a cell."""
    batch = realise(entry.description, dtype, level)
    return case_for(entry.description, batch, loss_type, level, beta)


@functools.cache
def expectation(case: Case) -> Expectation:
    """What is right, once for all faults."""
    return expect(case)


def first_detection(
    client: WorkerClient, entries: Sequence[Scheduled], dtype: DType, loss_type: LossType, levels: Sequence[Level]
) -> int | None:
    """The number of the first case that fails in one of the cells of a loss, counted from 1."""
    for entry in entries:
        for level in levels:
            for beta in BETAS:
                case = question(entry, dtype, loss_type, level, beta)
                outcome = client.ask(case)
                if outcome.status == "unsupported":
                    continue
                if judge(case, expectation(case), outcome).verdict.fails:
                    return entry.number + 1
    return None


def summary(found: dict[LossType, int | None]) -> str:
    """The largest number over the losses, and which losses were not caught."""
    caught = [number for number in found.values() if number is not None]
    missed = [str(loss_type) for loss_type, number in found.items() if number is None]
    if not caught:
        return "-"
    return f"{max(caught)}" + (f", not {', '.join(missed)}" if missed else "")


def row(fault: Fault, entries: Sequence[Scheduled], dtypes: Sequence[DType]) -> list[str]:
    """One line of the table: the fault, and for each dtype the cases to detection."""
    if fault.equivalent:
        return [fault.name, *["equivalent"] * len(dtypes)]
    levels = [Level(level) for level in fault.levels]
    cells = []
    with WorkerClient(sys.executable, PREFIX + fault.name) as client:
        for dtype in dtypes:
            if dtype.name not in fault.dtypes:
                cells.append("no fault")
                continue
            losses = [LossType(loss_type) for loss_type in fault.loss_types]
            cells.append(summary({loss: first_detection(client, entries, dtype, loss, levels) for loss in losses}))
    return [fault.name, *cells]


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float64,float32,bfloat16", help="separated by commas")
    parser.add_argument("--cases", type=int, default=144, help="cases a cell (default: 144)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dtypes = [DTYPES[name] for name in options.dtype.split(",")]
    entries = schedule(options.cases, options.seed)[: options.cases]
    print("| fault | " + " | ".join(dtype.name for dtype in dtypes) + " |")
    print("|---" * (len(dtypes) + 1) + "|")
    for fault in FAULTS:
        print("| " + " | ".join(row(fault, entries, dtypes)) + " |", flush=True)


if __name__ == "__main__":
    main()
