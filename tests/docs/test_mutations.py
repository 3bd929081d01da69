"""The breakages that our own tests are tried on: a text that is there no more would break nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_what_is_broken_is_there(mutation: Mutation) -> None:
    """The text, its place and the tests that are to notice."""
    assert mutation.old in (ROOT / mutation.file).read_text()
    assert mutation.old != mutation.new
    assert all((ROOT / test).exists() for test in mutation.tests.split())
