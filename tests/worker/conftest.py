"""Cases to ask targets with, and a way to see whether a process is still there."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cases.case import Case
from cases.descriptions import Advantage, Description, Layout, Ratio, Reference, Row
from cases.dtypes import DTYPES
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType

MakeCase = Callable[..., Case]

_ROWS = (
    Row(Layout.PREFIX, 5, (Ratio.INSIDE, Ratio.ABOVE_HIGH, Ratio.BELOW_LOW), 0, Advantage.POSITIVE),
    Row(Layout.FULL, 8, (Ratio.FAR_ABOVE, Ratio.INSIDE, Ratio.FAR_BELOW), 0, Advantage.NEGATIVE),
    Row(Layout.EMPTY, 1),
    Row(Layout.HOLES, 3, (Ratio.ABOVE_HIGH, Ratio.INSIDE), 0, Advantage.NEGATIVE, Reference.BELOW),
)


@pytest.fixture(scope="session")
def make_case() -> MakeCase:
    """Four completions of eight positions, with tokens inside and outside the clip bounds; one is empty."""

    def make(
        dtype: str = "float64",
        loss_type: str = "grpo",
        level: str = "token",
        beta: float = 0.0,
        on_policy: bool = False,
        token_advantages: bool = False,
        columns: int = 8,
        repeat: int = 1,
    ) -> Case:
        description = Description(
            _ROWS * repeat, columns, on_policy=on_policy, token_advantages=token_advantages, seed=7
        )
        batch = realise(description, DTYPES[dtype], Level(level))
        return case_for(description, batch, LossType(loss_type), Level(level), beta)

    return make


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # One that ended and was not collected by its parent still has a number.
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(scope="session")
def ends() -> Callable[[int], bool]:
    """Whether a process ends within some seconds."""

    def wait(pid: int, seconds: float = 5.0) -> bool:
        deadline = time.monotonic() + seconds
        while _is_alive(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    return wait
