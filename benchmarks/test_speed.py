"""What judging costs beside the target, by pytest-benchmark; `python -m benchmarks.speed` makes a table of it.

    python -m pytest benchmarks/test_speed.py --benchmark-only --benchmark-json speed.json

Every round takes a batch of its own, so that nothing is remembered from the last one. What is compared is timed in
one session; the ratios are the figures, not the times.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import DTYPES, DType
from cases.spec import LossSpec, LossType
from harness.client import WorkerClient
from harness.judge import Judgement, judge
from harness.outcome import Outcome
from harness.worker.registry import open_target
from harness.worker.target import Spec, Split, TensorCase
from oracles.batched.dispatch import expect
from oracles.batched.stacks import expect_all

SIZES = {(4, 8): 40, (8, 32): 25, (16, 256): 10, (64, 4096): 3}
TOGETHER = {(4, 8): 16, (8, 32): 16, (16, 256): 3}
"""Cases that are judged together, of sizes of which several are; a larger batch is alone."""

LOSSES = [loss_type for loss_type in LossType if loss_type is not LossType.GMPO]
CELLS = [(size, loss_type, dtype) for size in SIZES for loss_type in LOSSES for dtype in DTYPES]
TOGETHER_CELLS = [cell for cell in CELLS if cell[0] in TOGETHER]
_SEEDS = count()


def case(rows: int, columns: int, dtype: DType, loss_type: LossType) -> Case:
    """Completions from short to full; a sixth of the ratios outside the clip range; never the same twice."""
    random = np.random.default_rng(next(_SEEDS))
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
    high = 1.2 if loss_type is LossType.CISPO else 0.2
    # A temperature that float32 holds: TRL keeps it there.
    return Case(batch, LossSpec(loss_type, beta=0.04, epsilon_high=high, sapo_temperature_neg=1.25))


@pytest.fixture(scope="module")
def trl() -> Iterator[WorkerClient]:
    """TRL in a process of its own."""
    with WorkerClient(sys.executable, "trl") as client:
        yield client


@pytest.mark.parametrize(("size", "loss_type", "dtype"), CELLS)
def test_judging(
    benchmark: Any, trl: WorkerClient, size: tuple[int, int], loss_type: LossType, dtype: str
) -> None:
    """Oracle, bound and verdict of a case, beside one loss and backward of TRL on the same case."""
    theirs = []

    def answered() -> tuple[tuple[Case, Outcome], dict[str, Any]]:
        made = case(*size, DTYPES[dtype], loss_type)
        outcome = trl.ask(made)
        theirs.append(outcome.seconds)
        return (made, outcome), {}

    def judged(made: Case, outcome: Outcome) -> Judgement:
        return judge(made, expect(made), outcome)

    benchmark.group = f"{size} {loss_type} {dtype}"
    found = benchmark.pedantic(judged, setup=answered, rounds=SIZES[size], warmup_rounds=1)
    benchmark.extra_info["cell"] = [list(size), str(loss_type), dtype]
    benchmark.extra_info["target"] = statistics.median(theirs[1:])
    assert not found.message


@pytest.mark.parametrize(("size", "loss_type", "dtype"), TOGETHER_CELLS)
def test_judging_together(
    benchmark: Any, trl: WorkerClient, size: tuple[int, int], loss_type: LossType, dtype: str
) -> None:
    """The same for cases that are judged together, as those of one formula are in a run."""
    theirs = []

    def answered() -> tuple[tuple[list[Case], list[Outcome]], dict[str, Any]]:
        made = [case(*size, DTYPES[dtype], loss_type) for _ in range(TOGETHER[size])]
        outcomes = [trl.ask(one) for one in made]
        theirs.extend(outcome.seconds for outcome in outcomes)
        return (made, outcomes), {}

    def judged(made: list[Case], outcomes: list[Outcome]) -> list[Judgement]:
        return list(map(judge, made, expect_all(made), outcomes))

    benchmark.group = f"{size} {loss_type} {dtype} together"
    found = benchmark.pedantic(judged, setup=answered, rounds=max(5, SIZES[size] // 4), warmup_rounds=1)
    benchmark.extra_info["cell"] = [list(size), str(loss_type), dtype]
    benchmark.extra_info["together"] = TOGETHER[size]
    benchmark.extra_info["target"] = statistics.median(theirs[TOGETHER[size] :])
    assert not any(one.message for one in found)


def test_judging_beside_gradcheck(benchmark: Any) -> None:
    """Oracle, bound and verdict of a float32 case of (8, 32), beside torch's slow gradcheck of the same loss."""
    target = open_target("trl", {})
    made = case(8, 32, DTYPES["float64"], LossType.GRPO)
    batch = made.batch
    tensors = {
        name: torch.tensor(getattr(batch, name))
        for name in ("logps", "old_logps", "ref_logps", "advantages", "mask")
    }
    spec = Spec("grpo", "token", 0.04, 0.2, 0.2, made.spec.max_completion_length)
    whole = TensorCase(torch.float64, torch.device("cpu"), spec=spec, split=Split(), **tensors)

    def loss(logps: torch.Tensor) -> torch.Tensor:
        return target.loss(replace(whole, logps=logps))

    leaf = tensors["logps"].clone().requires_grad_(True)
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        assert torch.autograd.gradcheck(loss, (leaf,))
        seconds.append(time.perf_counter() - began)

    def fresh() -> tuple[tuple[Case], dict[str, Any]]:
        return (case(8, 32, DTYPES["float32"], LossType.GRPO),), {}

    def judged(one: Case) -> Judgement:
        expectation = expect(one)
        return judge(
            one, expectation, Outcome("ok", float(expectation.loss.high[0]), expectation.gradients[0].high)
        )

    benchmark.pedantic(judged, setup=fresh, rounds=40, warmup_rounds=1)
    benchmark.extra_info["gradcheck"] = statistics.median(seconds)


@pytest.mark.parametrize(("jobs", "cores"), [(1, 1), (1, 2), (2, 2)])
def test_a_run(benchmark: Any, tmp_path: Path, jobs: int, cores: int) -> None:
    """The default run of TRL, in one process that judges or in two, on one core or on two."""
    some = set(sorted(os.sched_getaffinity(0))[:cores])
    command = [Path(sys.executable).with_name("lossgate"), "run", "trl", "--quiet", "--jobs", str(jobs)]

    def run() -> None:
        folder = tmp_path / str(next(_SEEDS))
        subprocess.run(
            [*command, "--out", str(folder)],
            check=True,
            capture_output=True,
            preexec_fn=lambda: os.sched_setaffinity(0, some),
        )
        summary = json.loads((folder / "timings" / "summary.json").read_text())
        (use,) = summary["targets"].values()
        benchmark.extra_info.update(jobs=jobs, cores=len(some), parts=summary["parts"])
        benchmark.extra_info.update(share=use["share"], cases=use["cases"])

    benchmark.pedantic(run, rounds=1)


def test_a_failing_run(benchmark: Any, tmp_path: Path) -> None:
    """The default run of a target that is wrong in every cell with a KL term: each is explained."""
    command = [Path(sys.executable).with_name("lossgate"), "run", "fault:kl_sign", "--quiet"]

    def run() -> None:
        folder = tmp_path / str(next(_SEEDS))
        subprocess.run([*command, "--out", str(folder)], check=False, capture_output=True)
        findings = json.loads((folder / "run.json").read_text())["findings"]
        parts = json.loads((folder / "timings" / "summary.json").read_text())["parts"]
        benchmark.extra_info.update(explained=len(findings), explaining=parts["explaining"])
        assert {one["signature"] for one in findings} == {"KL term with the wrong sign"}

    benchmark.pedantic(run, rounds=1)
