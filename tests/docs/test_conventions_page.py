"""docs/conventions.md says what the adapters declare; docs/losses.md says what the oracles are."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import fields

import pytest

from cases.conventions import Conventions
from cases.spec import KLEstimator, LossType
from harness.outcome import TargetFacts, TargetUnavailable
from oracles.registry import ORACLES
from tests.docs.declared import TABLES, opened
from tests.docs.pages import Page

CONVENTIONS = Page("docs/conventions.md")
LOSSES = Page("docs/losses.md")
_PAPER = re.compile(r"arXiv\s(\d{4}\.\d{5})")


@pytest.fixture(scope="module")
def targets() -> Sequence[TargetFacts]:
    """The libraries of the page; `make test` fetches those that are not installed."""
    try:
        return opened()
    except TargetUnavailable as lacking:
        pytest.skip(f"`make test` fetches it: {lacking}")


@pytest.mark.parametrize("table", TABLES)
def test_the_table_is_what_adapters_declare(table: str, targets: Sequence[TargetFacts]) -> None:
    """As `python -m tests.docs.declared` prints it."""
    assert CONVENTIONS.between(f"<!-- {table}:", f"<!-- end of {table}") == TABLES[table](targets)


def test_every_convention_is_explained() -> None:
    """Each has a line on what it says, and no other has."""
    told = {name for row in CONVENTIONS.table("convention", "what it says") for name in _names(row[0])}
    assert told == {field.name for field in fields(Conventions)}


def test_every_loss_is_there_with_the_papers_of_its_oracle() -> None:
    """A row a loss; the papers that the oracle's docstring names are those of its row, and no others."""
    rows = LOSSES.table("`loss_type`", "paper")
    assert [_names(row[0])[0] for row in rows] == list(LossType)
    for row in rows:
        oracle = importlib.import_module(ORACLES[LossType(_names(row[0])[0])].loss.__module__)
        assert f"(../{oracle.__name__.replace('.', '/')}.py)" in row[0]
        assert set(_PAPER.findall(oracle.__doc__ or "")) == set(_PAPER.findall(row[1])), row[0]


def test_every_estimator_and_clip_is_there() -> None:
    """Each KL estimator has its formula, each loss a line on what it clips."""
    assert [row[0].strip("`") for row in LOSSES.table("`kl_estimator`")] == sorted(KLEstimator)
    clips = LOSSES.table("`loss_type`", "bounds")
    assert sorted(name for row in clips for name in _names(row[0])) == sorted(LossType)


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)
