"""The batched oracle and its verdict against the literal one and TRL's own `compute_loss` plus backward.

    python -m benchmarks.batched_oracle [--sizes 4x8,8x32,16x256,64x4096] [--dtypes float32,bfloat16,...]

Prints a Markdown table: one case a row, median milliseconds of several rounds, alternating. The literal oracle is
left out where a case would take it minutes. At (64, 4096), the last column is the peak memory of one evaluation.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import DTYPES, DType
from cases.spec import LossSpec, LossType
from harness.client import WorkerClient
from harness.judge import judge
from harness.outcome import Outcome
from oracles.batched.expectation import expect
from oracles.expectation import expect as literally

SIZES = ((4, 8), (8, 32), (16, 256), (64, 4096))
ROUNDS = {(4, 8): 60, (8, 32): 30, (16, 256): 10, (64, 4096): 3}
LITERAL_ROUNDS = {(4, 8): 20, (8, 32): 5, (16, 256): 1}
HEADS = (
    "(B, T)",
    "loss",
    "dtype",
    "literal, ms",
    "batched, ms",
    "verdict, ms",
    "TRL, ms",
    "literal / batched",
    "(batched + verdict) / TRL",
    "peak, MiB",
)
OF_TRL = [loss_type for loss_type in LossType if loss_type is not LossType.GMPO]


def case(rows: int, columns: int, dtype: DType, loss_type: LossType) -> Case:
    """Completions from short to full; a sixth of the ratios outside the clip range."""
    random = np.random.default_rng(rows)
    shape = rows, columns
    logps = dtype.round(-random.uniform(0.02, 1.0, shape))
    batch = Batch(
        dtype,
        logps,
        dtype.round(logps - random.normal(0.0, 0.15, shape)),
        dtype.round(logps + random.uniform(-1.0, 1.0, shape)),
        dtype.round(random.normal(0.0, 1.0, rows)),
        np.arange(columns) < (columns * (np.arange(rows) + 1) // rows)[:, None],
    )
    return Case(batch, LossSpec(loss_type, beta=0.04, epsilon_high=1.2 if loss_type is LossType.CISPO else 0.2))


def timed(call: Callable[[], object], rounds: int) -> float:
    """Median milliseconds."""
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


def peak(made: Case) -> float:
    """Peak memory of one evaluation, in MiB."""
    tracemalloc.start()
    try:
        expect(made)
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def row(client: WorkerClient | None, size: tuple[int, int], dtype: DType, loss_type: LossType) -> str:
    """One line of the table."""
    made = case(*size, dtype, loss_type)
    expectation = expect(made)
    answer = Outcome("ok", float(expectation.loss.high[0]), expectation.gradients[0].high)
    oracle = timed(lambda: expect(made), ROUNDS[size])
    verdict = timed(lambda: judge(made, expectation, answer), ROUNDS[size])
    literal = timed(lambda: literally(made), LITERAL_ROUNDS[size]) if size in LITERAL_ROUNDS else None
    trl = None
    if client is not None and loss_type in OF_TRL:
        client.ask(made)
        trl = statistics.median(client.ask(made).seconds for _ in range(ROUNDS[size])) * 1e3
    cells = [
        str(size),
        str(loss_type),
        dtype.name,
        _number(literal),
        f"{oracle:.2f}",
        f"{verdict:.2f}",
        _number(trl),
        _number(None if literal is None else literal / oracle),
        _number(None if trl is None else (oracle + verdict) / trl),
        f"{peak(made):.0f}" if size == SIZES[-1] else "",
    ]
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description="The batched oracle against the literal one and TRL.")
    parser.add_argument("--sizes", default=",".join(f"{rows}x{columns}" for rows, columns in SIZES))
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--losses", default=",".join(LossType))
    chosen = parser.parse_args()
    print(
        "| (B, T) | loss | dtype | literal, ms | batched, ms | verdict, ms | TRL, ms | literal / batched | ",
        end="",
    )
    print("(batched + verdict) / TRL | peak, MiB |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|")
    with ExitStack() as stack:
        client = None
        if find_spec("trl") is None:
            print("TRL is not installed: its columns stay empty; the extra trl installs it", file=sys.stderr)
        else:
            client = stack.enter_context(WorkerClient(sys.executable, "trl"))
        for text in chosen.sizes.split(","):
            rows, columns = (int(number) for number in text.split("x"))
            for loss_type in chosen.losses.split(","):
                for dtype in chosen.dtypes.split(","):
                    print(row(client, (rows, columns), DTYPES[dtype], LossType(loss_type)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
