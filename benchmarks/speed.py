"""What judging costs beside the target: runs `test_speed.py` by pytest-benchmark, prints its table in Markdown.

    python -m benchmarks.speed [FILE]

With FILE, the JSON file of an earlier run, nothing is measured again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> int:
    found = json.loads(Path(sys.argv[1]).read_text() if sys.argv[1:] else _measured())["benchmarks"]
    cells = [one for one in found if "cell" in one["extra_info"]]
    dtypes = list(dict.fromkeys(one["extra_info"]["cell"][2] for one in cells))
    print("(Oracle, bound and verdict) / one loss and backward of TRL, by dtype; in brackets, ours in ms.\n")
    print(f"| (B, T) | loss | {' | '.join(dtypes)} |")
    print(f"|---|---|{'---:|' * len(dtypes)}")
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for one in cells:
        size, loss_type, dtype = one["extra_info"]["cell"]
        rows.setdefault((f"({size[0]}, {size[1]})", loss_type), {})[dtype] = _cell(one)
    for (size, loss_type), by_dtype in rows.items():
        print(f"| {size} | {loss_type} | {' | '.join(by_dtype.get(dtype, '') for dtype in dtypes)} |")
    print()
    for one in found:
        if "gradcheck" in one["extra_info"]:
            ratio = one["extra_info"]["gradcheck"] / one["stats"]["median"]
            print(f"Slow gradcheck of TRL's grpo at (8, 32) / oracle, bound and verdict in float32: {ratio:.0f}.")
    runs = {one["extra_info"]["jobs"]: one for one in found if "jobs" in one["extra_info"]}
    for jobs, one in runs.items():
        about = one["extra_info"]
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in about["parts"].items())
        print(
            f"`lossgate run trl --jobs {jobs}`: {one['stats']['median']:.0f} s for {about['cases']:,} cases "
            f"({parts}); {about['share']:.0%} of the time of TRL's processes in its own loss and gradient."
        )
    if runs.keys() >= {1, 2}:
        rates = [_rate(runs[jobs]) for jobs in (1, 2)]
        print(f"Cases per second while judging, two processes / one: {rates[1] / rates[0]:.2f}.")
    return 0


def _measured() -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "speed.json"
        command = [sys.executable, "-m", "pytest", "-q", str(Path(__file__).with_name("test_speed.py"))]
        subprocess.run([*command, "--benchmark-only", "--benchmark-json", file], check=True, stdout=sys.stderr)
        return file.read_text()


def _cell(one: dict[str, Any]) -> str:
    ours = one["stats"]["median"]
    return f"{ours / one['extra_info']['target']:.2f} ({1000 * ours:.2f})"


def _rate(one: dict[str, Any]) -> float:
    about = one["extra_info"]
    rate: float = about["cases"] / (about["parts"]["judging"] + about["parts"]["padding"])
    return rate


if __name__ == "__main__":
    raise SystemExit(main())
