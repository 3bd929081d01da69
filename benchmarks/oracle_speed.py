"""The literal oracle against TRL's own `compute_loss` plus backward, on the same cases, in one run.

    python -m benchmarks.oracle_speed

Prints a Markdown table. Exits 1 where the oracle takes more than `LIMIT` times TRL's time at (4, 8) in float32.
"""

from __future__ import annotations

import statistics
import sys
import time

from cases.case import Case
from cases.descriptions import Advantage, Description, Layout, Ratio, Reference, Row
from cases.dtypes import FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.client import WorkerClient
from oracles.expectation import expect

LIMIT = 5.0
SIZES = ((4, 8), (8, 32), (16, 256))
ROUNDS = {(4, 8): 60, (8, 32): 20, (16, 256): 5}


def cases(rows: int, columns: int, count: int, loss_type: LossType, level: Level) -> list[Case]:
    """Ragged batches of typical numbers: a third of the tokens clipped, none at a bound."""
    ratios = (Ratio.INSIDE, Ratio.ABOVE_HIGH, Ratio.BELOW_LOW)
    signs = (Advantage.POSITIVE, Advantage.NEGATIVE)
    made = []
    for seed in range(count):
        description = Description(
            rows=tuple(
                Row(
                    Layout.FULL if row % 2 else Layout.PREFIX,
                    max(1, columns * (row + 1) // (rows + 1)),
                    ratios,
                    0,
                    signs[row % 2],
                    Reference.TYPICAL,
                )
                for row in range(rows)
            ),
            columns=columns,
            seed=seed,
        )
        batch = realise(description, FLOAT32, level)
        made.append(case_for(description, batch, loss_type, level, 0.04))
    return made


def measured(client: WorkerClient, made: list[Case]) -> tuple[float, float]:
    """Median seconds of the oracle and of TRL, alternating case by case."""
    ours, theirs = [], []
    for case in made:
        start = time.perf_counter()
        expect(case)
        ours.append(time.perf_counter() - start)
        theirs.append(client.ask(case).seconds)
    return statistics.median(ours), statistics.median(theirs)


def main() -> int:
    print("| (B, T) | loss | level | oracle, ms | TRL, ms | oracle / TRL |")
    print("|---|---|---|---:|---:|---:|")
    over = []
    with WorkerClient(sys.executable, "trl") as client:
        for size in SIZES:
            for loss_type in LossType:
                for level in Level:
                    made = cases(*size, ROUNDS[size], loss_type, level)
                    ours, theirs = measured(client, made)
                    ratio = ours / theirs
                    print(
                        f"| {size} | {loss_type} | {level} "
                        f"| {ours * 1e3:.2f} | {theirs * 1e3:.2f} | {ratio:.1f} |",
                        flush=True,
                    )
                    if size == SIZES[0] and ratio > LIMIT:
                        over.append(f"{loss_type} {level}: {ratio:.1f}")
    if over:
        print(f"over the limit of {LIMIT} at {SIZES[0]}: {'; '.join(over)}", file=sys.stderr)
    return int(bool(over))


if __name__ == "__main__":
    raise SystemExit(main())
