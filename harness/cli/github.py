"""A run told to the GitHub Actions job that it runs in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.run import Run


def publish(run: Run, aside: bool = False) -> None:
    """Print a run's annotations, and add its job summary to the file that GITHUB_STEP_SUMMARY names, if it is set.

    `aside`: on standard error, which the runner reads as well. Raises `UsageError` where it cannot be written.
    """
    from harness.errors import UsageError
    from reports import github
    from reports.formats import gate
    from reports.store import why

    seen = gate(run)
    print(github.commands(seen), end="", file=sys.stderr if aside else sys.stdout)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with open(summary, "a", encoding="utf-8") as file:
                file.write(github.job_summary(seen))
        except OSError as error:
            raise UsageError(f"cannot write the job summary {summary}: {why(error)}") from error
