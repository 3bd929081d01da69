"""Releases of libraries from lossgate's cache, and cases that meet every named boundary of input space."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from cases.case import Case
from cases.dtypes import DTYPES
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.schedule import boundary_descriptions
from cases.spec import Level, LossType
from harness.asking import Contestant
from harness.client import TargetUnavailable, WorkerClient
from harness.releases.overlay import overlay_of
from reports.records import Verdict

LONGEST: Final = 24
"""Columns of the longest batch that is asked: exact arithmetic on longer ones takes most of the time."""


@contextmanager
def opened(release: str) -> Iterator[Contestant]:
    """A release such as "verl==0.9.1", ready to be asked; skipped where the cache lacks it."""
    try:
        overlay = overlay_of(release, sys.executable, offline=True)
    except TargetUnavailable as lacking:
        pytest.skip(f"`make test` fetches it: {lacking}")
    with WorkerClient(sys.executable, overlay.target, path=overlay.folders) as client:
        yield Contestant(client, client.facts, "cpu")


def boundary_cases(dtype: str, loss_type: str, level: str, beta: float) -> Iterator[Case]:
    """The boundary phase of a run in one cell, without its longest batches."""
    for description in boundary_descriptions():
        if description.columns <= LONGEST:
            batch = realise(description, DTYPES[dtype], Level(level))
            yield case_for(description, batch, LossType(loss_type), Level(level), beta)


def departures(one: Contestant, dtype: str, loss_type: str, level: str, beta: float) -> tuple[int, list[Case]]:
    """How many of the boundary cases of a cell conform, and those that diverge or raise."""
    conforming, departing = 0, []
    for case in boundary_cases(dtype, loss_type, level, beta):
        own = one.under_conventions(case)
        verdict = one.judged(own).verdict
        conforming += verdict is Verdict.CONFORMS
        if verdict not in (Verdict.CONFORMS, Verdict.OVERFLOW, Verdict.UNSUPPORTED):
            departing.append(own)
    return conforming, departing
