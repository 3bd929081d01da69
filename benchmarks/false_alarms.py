"""Does anything fail that should not? Many seeds of a target that is right, every cell.

    python -m benchmarks.false_alarms trl --seeds 10

Prints one Markdown row a seed and dtype: cases, failures, and the largest error / bound of loss and gradient
(above 1 is a failure, or known). What is expected is read from lossgate.toml in the current folder. Exits 1 where
a case failed.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

from harness.config import Config
from harness.engine import execute
from harness.events import CaseJudged, Event
from harness.plan import Plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--seeds", type=int, default=10, help="how many, counted from --first")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--examples", type=int, default=64)
    parser.add_argument("--beta", default="0,0.04,1")
    parser.add_argument("--dtype", default="float64,float32,bfloat16,float16")
    options = parser.parse_args()
    print("| seed | dtype | cases | failing | loss: error / bound | gradient: error / bound |")
    print("|---:|---|---:|---:|---:|---:|")
    cases = failures = 0
    for seed in range(options.first, options.first + options.seeds):
        plan = Plan.of(
            options.targets,
            betas=options.beta,
            dtypes=options.dtype,
            examples=options.examples,
            seed=seed,
            expect=Config.load(None).expect,
            jobs=options.jobs,
        )
        judged = _judged(plan)
        for dtype, events in judged.items():
            failing = sum(event.record.verdict.fails for event in events)
            cases += len(events)
            failures += failing
            loss = max((e.record.loss.ratio for e in events if e.record.loss.ratio >= 0), default=0.0)
            gradient = max((e.record.gradient.ratio for e in events if e.record.gradient.ratio >= 0), default=0.0)
            row = f"| {seed} | {dtype} | {len(events):,} | {failing} | {loss:.2f} | {gradient:.2f} |"
            print(row, flush=True)
            for event in events:
                if event.record.verdict.fails:
                    print(f"{event.record.cell} {event.record.case_id}: {event.record.message.splitlines()[0]}")
    print(f"\n{cases:,} cases, {failures} failing")
    return int(failures > 0)


def _judged(plan: Plan) -> dict[str, list[CaseJudged]]:
    judged: defaultdict[str, list[CaseJudged]] = defaultdict(list)

    def emit(event: Event) -> None:
        if isinstance(event, CaseJudged) and event.record.phase != "shrunk":
            judged[event.record.cell.dtype].append(event)

    execute(plan, emit)
    return judged


if __name__ == "__main__":
    raise SystemExit(main())
