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
    print("(Oracle, bound and verdict) / one loss and backward of TRL, by dtype; in brackets, ours in ms.")
    print("\nCases judged together, as those of one formula are in a run, each of them:\n")
    _print_table([one for one in cells if "together" in one["extra_info"]], dtypes)
    print("\nA case judged by itself:\n")
    _print_table([one for one in cells if "together" not in one["extra_info"]], dtypes)
    print()
    for one in found:
        if "gradcheck" in one["extra_info"]:
            ratio = one["extra_info"]["gradcheck"] / one["stats"]["median"]
            print(f"Slow gradcheck of TRL's grpo at (8, 32) / oracle, bound and verdict in float32: {ratio:.0f}.")
    measured = [one for one in found if "jobs" in one["extra_info"]]
    runs = {(one["extra_info"]["jobs"], one["extra_info"]["cores"]): one for one in measured}
    for (jobs, cores), one in runs.items():
        about, seconds = one["extra_info"], one["stats"]["median"]
        where = f"{cores} core{'s' if cores > 1 else ''}"
        parts = ", ".join(f"{name} {took:.1f}" for name, took in about["parts"].items())
        print(
            f"`lossgate run trl --jobs {jobs}` on {where}: {seconds:.0f} s, {about['cases']:,} cases ({parts}); "
            f"{about['share']:.0%} of the time of TRL's processes in its own loss and gradient."
        )
    if runs.keys() >= {(1, 1), (1, 2), (2, 2)}:
        rate = _rate(runs[1, 1])
        one, two = (_rate(runs[jobs, 2]) / rate for jobs in (1, 2))
        print(f"Cases per second while judging, two cores / one: {one:.2f} with one job, {two:.2f} with two.")
    for one in found:
        about = one["extra_info"]
        if "explained" in about:
            print(
                f"`lossgate run fault:kl_sign` on two cores: {one['stats']['median']:.0f} s, of which "
                f"{about['explaining']:.0f} explain {about['explained']} failing cells."
            )
    return 0


def _print_table(cells: list[dict[str, Any]], dtypes: list[str]) -> None:
    print(f"| (B, T) | loss | {' | '.join(dtypes)} |")
    print(f"|---|---|{'---:|' * len(dtypes)}")
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for one in cells:
        size, loss_type, dtype = one["extra_info"]["cell"]
        rows.setdefault((f"({size[0]}, {size[1]})", loss_type), {})[dtype] = _cell(one)
    for (size, loss_type), by_dtype in rows.items():
        print(f"| {size} | {loss_type} | {' | '.join(by_dtype.get(dtype, '') for dtype in dtypes)} |")


def _measured() -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "speed.json"
        command = [sys.executable, "-m", "pytest", "-q", str(Path(__file__).with_name("test_speed.py"))]
        subprocess.run([*command, "--benchmark-only", "--benchmark-json", file], check=True, stdout=sys.stderr)
        return file.read_text()


def _cell(one: dict[str, Any]) -> str:
    ours = one["stats"]["median"] / one["extra_info"].get("together", 1)
    return f"{ours / one['extra_info']['target']:.2f} ({1000 * ours:.2f})"


def _rate(one: dict[str, Any]) -> float:
    about = one["extra_info"]
    rate: float = about["cases"] / (about["parts"]["judging"] + about["parts"]["padding"])
    return rate


if __name__ == "__main__":
    raise SystemExit(main())
