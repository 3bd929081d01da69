"""What it costs to ask a target in a process of its own, and what its start consists of.

    python -m benchmarks.protocol_cost

Prints two Markdown tables. A case's cost is the time of `WorkerClient.ask` less the loss and gradient themselves,
which the target's process measures. Exits 1 where its median at (4, 8) in float32 exceeds `LIMIT`.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Final

from benchmarks.oracle_speed import cases
from cases.case import Case
from cases.spec import Level, LossType
from harness.client import WorkerClient
from harness.outcome import Outcome, case_request
from harness.worker import protocol
from harness.worker_process import WorkerProcess
from harness.worker_start import Start

TARGET: Final = "fault:none"
COUNT: Final = 4000
BLOCK: Final = 100
LIMIT: Final = 0.2e-3
STARTS: Final = 5
LONG: Final = 600.0

ASK: Final = "a case, less loss and gradient"
ENCODE: Final = "its encoding"
EXCHANGE: Final = "both pipes, and the process less loss and gradient"
DECODE: Final = "its answer's decoding"
TARGETS_OWN: Final = "loss and gradient"

IMPORTS: Final = {
    "Python alone": "pass",
    "Python and torch": "import torch",
    "Python and TRL": "from trl import GRPOTrainer",
}
HELLO: Final = "the process up to its first answer, with torch"
OPENED: Final = "the process up to the second, with TRL and a trainer"


def main() -> int:
    print("| what | median, ms | 10th percentile, ms |")
    print("|---|---:|---:|")
    costs = case_costs(cases(4, 8, COUNT, LossType.GRPO, Level.TOKEN))
    for what, seconds in costs.items():
        print(f"| {what} | {statistics.median(seconds) * 1e3:.3f} | {sorted(seconds)[COUNT // 10] * 1e3:.3f} |")
    print()
    print("| start | median, s |")
    print("|---|---:|")
    for what, seconds in start_costs().items():
        print(f"| {what} | {statistics.median(seconds):.2f} |", flush=True)
    cost = statistics.median(costs[ASK])
    if cost > LIMIT:
        print(f"over the limit of {LIMIT * 1e3:g} ms: {cost * 1e3:.3f}", file=sys.stderr)
    return int(cost > LIMIT)


def case_costs(made: list[Case]) -> dict[str, list[float]]:
    """Seconds of `ask`, and of what it does step by step, by turns and in a process each."""
    costs: dict[str, list[float]] = {what: [] for what in (ASK, ENCODE, EXCHANGE, DECODE, TARGETS_OWN)}
    for case in made:
        # A run needs it for its records anyway.
        assert case.id
    process, _ = Start(sys.executable, TARGET, {}, None, (), None, LONG).launch().finish()
    try:
        with WorkerClient(sys.executable, TARGET) as client:
            for first in range(0, len(made), BLOCK):
                for case in made[first : first + BLOCK]:
                    start = time.perf_counter()
                    outcome = client.ask(case)
                    costs[ASK].append(time.perf_counter() - start - outcome.seconds)
                    costs[TARGETS_OWN].append(outcome.seconds)
                for case in made[first : first + BLOCK]:
                    start = time.perf_counter()
                    request = case_request(case, "cpu", {})
                    encoded = time.perf_counter()
                    answer = exchanged(process, request)
                    answered = time.perf_counter()
                    outcome = Outcome.from_message(answer, "")
                    costs[DECODE].append(time.perf_counter() - answered)
                    costs[EXCHANGE].append(answered - encoded - outcome.seconds)
                    costs[ENCODE].append(encoded - start)
    finally:
        process.kill()
    return costs


def start_costs() -> dict[str, list[float]]:
    """Seconds until a process has given its two first answers, and what of that Python takes by itself."""
    costs: dict[str, list[float]] = {what: [] for what in (*IMPORTS, HELLO, OPENED)}
    hello = protocol.pack({"request": "hello", "protocol": protocol.PROTOCOL_VERSION, "memory": None})
    opening = protocol.pack({"request": "open", "target": "trl", "options": {}})
    for _ in range(STARTS):
        for what, source in IMPORTS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", source], check=True)
            costs[what].append(time.perf_counter() - start)
        start = time.perf_counter()
        process = WorkerProcess(sys.executable, None)
        try:
            exchanged(process, hello)
            costs[HELLO].append(time.perf_counter() - start)
            answer = exchanged(process, opening)
            costs[OPENED].append(time.perf_counter() - start)
            assert answer.header["status"] == "ok", answer.header["message"]
        finally:
            process.kill()
    return costs


def exchanged(process: WorkerProcess, request: bytes) -> protocol.Message:
    """The answer to a request."""
    deadline = time.monotonic() + LONG
    process.output.forget()
    process.send(request, deadline)
    return process.receive(deadline)


if __name__ == "__main__":
    raise SystemExit(main())
