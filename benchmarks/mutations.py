"""Would our own tests notice? Deliberate breakages, and the tests that fail for each.

    python -m benchmarks.mutations

Each breakage is made in a copy of the repository, and the tests that guard the place are run there. Prints a
Markdown row a breakage. Exits 1 where one survives, or where the tests fail without any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """One breakage: `old` becomes `new` in `file`; `tests` must notice."""

    what: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS: Final = (
    Mutation(
        "oracle: grpo takes the mean over all tokens",
        "oracles/grpo.py",
        "/ formula.divisor(len(completion))",
        "* 1.0",
        "tests/oracles/test_gradients.py",
    ),
    Mutation(
        "oracle: the minimum of the clipped surrogate is left out",
        "oracles/terms.py",
        "minimum(first * advantage, clip(ratio, p.ratio_low, p.ratio_high) * advantage)",
        "clip(ratio, p.ratio_low, p.ratio_high) * advantage",
        "tests/oracles/test_loss_relations.py tests/oracles/test_gradients.py",
    ),
    Mutation(
        "oracle: k3 of the wrong sign",
        "oracles/kl.py",
        "clip(token.ref_logp - token.logp,",
        "clip(token.logp - token.ref_logp,",
        "tests/oracles/test_gradients.py",
    ),
    Mutation(
        "oracle: the off-policy mask drops at equality",
        "oracles/completions.py",
        "return False\n        number",
        "return True\n        number",
        "tests/oracles/test_jumps.py tests/faults",
    ),
    Mutation(
        "bound: an exponential is exact",
        "oracles/contract.py",
        "EXP_ULPS: Final = 2.0",
        "EXP_ULPS: Final = 0.0",
        "tests/oracles/test_bound.py",
    ),
    Mutation(
        "bound: ten times too large",
        "oracles/expectation.py",
        "SLACK: Final = 1.0 + 2.0**-30",
        "SLACK: Final = 10.0",
        "tests/oracles/test_bound.py",
    ),
    Mutation(
        "bound: no half of a tie",
        "oracles/sweep.py",
        "TIE_WEIGHTS: Final = (1.0, 0.0, 0.5)",
        "TIE_WEIGHTS: Final = (1.0, 0.0)",
        "tests/oracles/test_decisions.py tests/harness/test_judge.py",
    ),
    Mutation(
        "judge: masked positions are not looked at",
        "harness/judge.py",
        "compared = np.where(np.isnan(ratio), 0.0, ratio)",
        "compared = np.where(np.isnan(ratio) | ~mask, 0.0, ratio)",
        "tests/harness/test_judge.py",
    ),
    Mutation(
        "judge: twice the bound conforms",
        "harness/judge.py",
        "if ratio[at] <= 1.0:",
        "if ratio[at] <= 2.0:",
        "tests/harness/test_judge.py",
    ),
    Mutation(
        "judge: overflow excuses the whole batch",
        "harness/judge.py",
        "overflows.any(axis=1, keepdims=True)",
        "overflows.any()",
        "tests/harness/test_judge.py",
    ),
    Mutation(
        "realisation: the upper bound is never met",
        "cases/realisation.py",
        "return high + row.ulps * ulp",
        "return high + 0.01",
        "tests/cases/test_realisation.py",
    ),
    Mutation(
        "realisation: masked positions are neutral",
        "cases/realisation.py",
        "return np.where(mask, wanted, garbage)",
        "return np.where(mask, wanted, 0.0)",
        "tests/cases/test_realisation.py",
    ),
    Mutation(
        "schedule: options are left to chance",
        "harness/generation.py",
        "**combinations[number % len(combinations)]",
        "**combinations[0]",
        "tests/cases/test_pairwise.py",
    ),
    Mutation(
        "cases together: all have the hyper-parameters of the first",
        "oracles/batched/layout.py",
        "return [getattr(case.spec, name) for case in self.cases]",
        "return [getattr(self.cases[0].spec, name) for _ in self.cases]",
        "tests/oracles/batched/test_stacks.py",
    ),
    Mutation(
        "cases together: all have the doubts of the first",
        "oracles/batched/decisions.py",
        "doubts = self.doubts[case]",
        "doubts = self.doubts[0]",
        "tests/oracles/batched/test_stacks.py",
    ),
    Mutation(
        "cases together: what divides by 1 rounds",
        "oracles/batched/divisor.py",
        "_NOTHING if count.value == 1 else by_count(",
        "by_count(",
        "tests/oracles/batched/test_stacks.py",
    ),
    Mutation(
        "cases together: each has what is expected of another",
        "harness/foresight.py",
        "expected_all([one.case for one in alike])",
        "expected_all([one.case for one in alike][::-1])",
        "tests/harness/test_foresight.py",
    ),
)


def main() -> int:
    failed = []
    print("| breakage | tests that fail |")
    print("|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "lossgate"
        ignored = shutil.ignore_patterns(".*", "lossgate-runs", "__pycache__")
        shutil.copytree(ROOT, copy, ignore=ignored)
        for mutation in MUTATIONS:
            path = copy / mutation.file
            text = path.read_text()
            if text.count(mutation.old) < 1:
                raise SystemExit(f"{mutation.file} no longer holds {mutation.old!r}")
            path.write_text(text.replace(mutation.old, mutation.new, 1))
            names = _failing(copy, mutation.tests)
            path.write_text(text)
            if not names:
                failed.append(mutation.what)
            print(f"| {mutation.what} | {', '.join(names) or '**none**'} |", flush=True)
        whole = sorted({test for mutation in MUTATIONS for test in mutation.tests.split()})
        if _failing(copy, " ".join(whole)):
            failed.append("the tests fail without any breakage")
    for what in failed:
        print(f"survives: {what}", file=sys.stderr)
    return int(bool(failed))


def _failing(copy: Path, tests: str) -> list[str]:
    """Names of the first tests that fail."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", *tests.split()],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if result.returncode not in (0, 1) and not lines:
        raise SystemExit(f"pytest did not run: {result.stdout}{result.stderr}")
    return [line.split(" ")[1].split("::")[-1].split("[")[0] for line in lines]


if __name__ == "__main__":
    raise SystemExit(main())
