"""Bisection: the change is found with few candidates judged, around what cannot be, or refused with a sentence."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bisection.bisection import Answer, bisected
from harness.bisection.finding import NO_SUCH_CELL, Finding
from harness.bisection.report import lines, sentence
from harness.bisection.search import Side, change
from harness.errors import UsageError
from harness.exit_codes import ExitCode
from reports.columns import Asked, Result
from reports.records import Verdict

ASKED = Asked("dapo", "token", 0.0, "float32")


def finding(number: int, state: str) -> Finding:
    """A candidate in a state: "clean", "moves", "skip", "absent", or what is wrong with it."""
    name, folder = f"v{number}", Path("runs") / f"v{number}"
    if state in ("skip", "absent"):
        return Finding(name, name, None, None, NO_SUCH_CELL if state == "absent" else "it does not start")
    verdicts = {"clean": Verdict.OVERFLOW, "moves": Verdict.NONDETERMINISTIC}
    verdict = verdicts.get(state, Verdict.DIVERGES)
    signature = state if verdict.fails else ""
    return Finding(name, name, folder, Result(ASKED, verdict, 2.0, 9, signature, "0123456789ab"))


def answer(*states: str) -> Answer:
    """The bisection of candidates in these states."""
    return bisected(len(states), lambda number: finding(number, states[number]), "release")


@given(st.integers(2, 300), st.data())
def test_as_few_as_possible(size: int, data: st.DataObject) -> None:
    """The change is found wherever it is, with no more than ceil(log2(size - 1)) candidates between the ends."""
    first_changed = data.draw(st.integers(1, size - 1))
    asked: list[int] = []

    def side(number: int) -> Side:
        asked.append(number)
        return Side.LAST if number >= first_changed else Side.FIRST

    found = change(size, side)
    assert (found.before, found.after) == (first_changed - 1, first_changed)
    assert len(asked) == len(set(asked)) <= math.ceil(math.log2(max(size - 1, 1)))
    assert not set(asked) & {0, size - 1}


@given(st.integers(2, 60), st.data())
def test_around_what_is_skipped(size: int, data: st.DataObject) -> None:
    """The answer is exact but for candidates that were skipped, each of which lies between its two ends."""
    first_changed = data.draw(st.integers(1, size - 1))
    skipped = data.draw(st.sets(st.integers(1, size - 2))) if size > 2 else set()

    def side(number: int) -> Side:
        if number in skipped:
            return Side.SKIPPED
        return Side.LAST if number >= first_changed else Side.FIRST

    found = change(size, side)
    assert found.before < first_changed <= found.after
    assert set(found.skipped) <= skipped
    assert not {found.before, found.after} & skipped


def test_a_dozen_releases() -> None:
    """From wrong to clean in forty: at most 8 judged, in the words of the answer."""
    found = answer(*["off"] * 23, *["clean"] * 17)
    assert sentence(found) == "last divergent v22, first clean v23"
    assert found.count <= 8
    assert found.exit_code is ExitCode.CONFORMS
    printed = list(lines(found, "trl 1..40", "release", 40))
    assert printed[-2:] == ["  v22: off", "  look closer: lossgate explain runs/v22/cases/0123456789ab.json"]
    assert [one.name for one in found.judged] == sorted(
        (one.name for one in found.judged), key=lambda name: int(name[1:])
    )


def test_wrong_in_several_ways() -> None:
    """From wrong to clean, every way to be wrong is wrong; from wrong to wrong, it tells in which way."""
    assert sentence(answer("a", "a", "b", "clean", "clean")) == "last divergent v2, first clean v3"
    words = "last divergent as at the beginning v1, first divergent otherwise v2"
    assert sentence(answer("a", "a", "b", "b")) == words
    assert sentence(answer("a", "clean", "b")) == "last divergent v0, first clean v1"


def test_a_range_where_the_middle_is_skipped() -> None:
    """What could not be judged beside the change is named; elsewhere it is of no account."""
    found = answer("clean", "skip", "clean", "absent", "skip", "off", "off", "off")
    assert sentence(found) == (
        "last clean v2, first divergent v5; the first may be one of these, which could not be judged: v3, v4"
    )
    assert "  v3  skipped: it does not have this cell" in list(lines(found, "", "release", 8))


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        (("clean", "off", "clean"), "v0 and v2 are both clean: there is no change between them to find"),
        (("off", "clean", "off"), "v0 and v2 are both divergent, in the same way: off"),
        (("moves", "clean", "clean"), "v0 is nondeterministic in this cell"),
        (("clean", "moves", "off"), "v1 is nondeterministic in this cell"),
        (("skip", "clean", "off"), "v0 is no end to bisect from: it cannot be judged: it does not start"),
        (("clean", "off", "absent"), "v2 is no end to bisect from: it does not have this cell"),
    ],
)
def test_refused(states: tuple[str, ...], reason: str) -> None:
    """No change between the ends, an end that tells nothing, or an answer that moves: said, with what to do."""
    found = answer(*states)
    assert sentence(found).startswith(f"no answer: {reason}")
    assert found.advice
    assert found.exit_code is ExitCode.INCOMPARABLE


def test_one_candidate() -> None:
    """Nothing can have changed in one release."""
    with pytest.raises(UsageError, match="one release only"):
        answer("off")
