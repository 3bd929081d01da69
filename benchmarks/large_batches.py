"""Large batches: what a case of (64, 4096) costs in time and in memory, against the limits that a run keeps.

    python -m benchmarks.large_batches

Prints a Markdown table: TRL, every loss, level and dtype; medians of a few rounds. A run draws once for all losses
of a level and dtype; here, drawing counts in full for each case. Exits 1 where a case takes more than `SECONDS`,
or lossgate or TRL's process has held more than `GIBIBYTES`.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable
from itertools import product
from typing import Final, TypeVar

from cases.case import Case
from cases.descriptions import Description
from cases.dtypes import BFLOAT16, FLOAT32, DType
from cases.hyperparameters import case_for
from cases.large import large_descriptions
from cases.realisation import realise
from cases.regions import regions_of
from cases.spec import Level, LossType
from harness.client import WorkerClient
from harness.judge import judge
from oracles.batched.dispatch import expect

T = TypeVar("T")

SECONDS: Final = 5.0
GIBIBYTES: Final = 4.0
ROUNDS: Final = 3
BETA: Final = 0.04
OF_TRL: Final = [loss_type for loss_type in LossType if loss_type is not LossType.GMPO]
WHAT: Final = ("drawing", "oracle", "TRL", "verdict")


def largest() -> Description:
    """The last of the large phase: 262,144 tokens, three in five of them unclipped."""
    found = large_descriptions()[-1]
    assert (found.row_count, found.columns) == (64, 4096)
    return found


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Median seconds, and what is returned."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def drawn(dtype: DType, loss_type: LossType, level: Level) -> Case:
    """The case with its id and its regions, as a run needs them."""
    batch = realise(largest(), dtype, level)
    case = case_for(largest(), batch, loss_type, level, BETA)
    assert case.id
    assert regions_of(case)
    return case


def seconds_of(client: WorkerClient, dtype: DType, loss_type: LossType, level: Level) -> dict[str, float]:
    """What each part of one case takes. Raises `RuntimeError` where TRL does not conform: it measures nothing."""
    drawing, case = timed(lambda: drawn(dtype, loss_type, level))
    oracle, expectation = timed(lambda: expect(case))
    trl, outcome = timed(lambda: client.ask(case))
    verdict, judgement = timed(lambda: judge(case, expectation, outcome))
    if judgement.verdict.fails:
        raise RuntimeError(f"{loss_type} {level} {dtype.name}: {judgement.verdict}: {judgement.message}")
    return dict(zip(WHAT, (drawing, oracle, trl, verdict), strict=True))


def peak(who: int) -> float:
    """Largest resident memory so far, in GiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit / 2**30


def main() -> int:
    print(f"| loss | level | dtype | {', s | '.join(WHAT)}, s | together, s |")
    print(f"|---|---|---|{'---:|' * (len(WHAT) + 1)}")
    over = []
    with WorkerClient(sys.executable, "trl") as client:
        for loss_type, level, dtype in product(OF_TRL, Level, (FLOAT32, BFLOAT16)):
            seconds = seconds_of(client, dtype, loss_type, level)
            together = sum(seconds.values())
            cells = [str(loss_type), str(level), dtype.name, *(f"{seconds[name]:.3f}" for name in WHAT)]
            print(f"| {' | '.join(cells)} | {together:.2f} |", flush=True)
            if together > SECONDS:
                over.append(f"{loss_type} {level} {dtype.name} takes {together:.1f} s, allowed are {SECONDS:g}")
    # Of processes that have ended.
    held = {"lossgate": peak(resource.RUSAGE_SELF), "TRL's process": peak(resource.RUSAGE_CHILDREN)}
    print(f"\nPeak resident memory: {', '.join(f'{name} {size:.2f} GiB' for name, size in held.items())}.")
    over += [
        f"{name} held {size:.1f} GiB, allowed are {GIBIBYTES:g}" for name, size in held.items() if size > GIBIBYTES
    ]
    for sentence in over:
        print(sentence, file=sys.stderr)
    return int(bool(over))


if __name__ == "__main__":
    raise SystemExit(main())
