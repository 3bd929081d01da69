"""What a test does about what became of cells: fail with the words for it, skip, expect it, or leave a note."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lossgate_pytest.command import NotRun
from lossgate_pytest.question import Question
from lossgate_pytest.result import CellResult, Run
from lossgate_pytest.runs import Runs


class Checker:
    """The fixture `lossgate`."""

    def __init__(self, item: pytest.Item, runs: Runs) -> None:
        self._item = item
        self._runs = runs

    def check(self, *target: Any, **cells: Any) -> tuple[CellResult, ...]:
        """Judge a target, by its name or as a callable that has one, and fail the test if one of its cells fails.

        The arguments are those of the mark. Returns what became of the cells; where none of them is supported, the
        test is skipped.
        """
        __tracebackhide__ = True
        try:
            question = Question.of(*target, **cells)
        except ValueError as error:
            raise pytest.fail.Exception(f"lossgate.check: {error}", pytrace=False) from None
        run = judged(self._runs, question)
        results = tuple(map(run.result, question.cells))
        failing = [result for result in results if result.fails]
        if failing:
            also = [f"also {one.cell}: {one.headline}" for one in failing[1:]]
            pytest.fail("\n".join([*_failure(self._runs, run, failing[0]), *also]), pytrace=False)
        if all(result.verdict == "unsupported" for result in results):
            pytest.skip(results[0].headline)
        notes = [f"{one.cell}: {one.headline}" for one in results if one.verdict != "conforms"]
        if notes:
            self._item.add_report_section("call", "lossgate", "\n".join(notes))
        return results


def judged(runs: Runs, question: Question) -> Run:
    """The run that answers a question; where there is none, the test fails with a sentence."""
    __tracebackhide__ = True
    try:
        return runs.of(question)
    except NotRun as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def settle(item: pytest.Item, runs: Runs, run: Run, result: CellResult) -> None:
    """End the test of a cell that is no pass; where it is one, the body of the test goes on."""
    __tracebackhide__ = True
    if result.fails:
        pytest.fail("\n".join(_failure(runs, run, result)), pytrace=False)
    if result.verdict == "known":
        # Neither a pass nor left out: it was judged, and does what somebody wrote down with a reason.
        pytest.xfail(result.headline)
    if result.verdict == "unsupported":
        pytest.skip(result.headline)
    if result.verdict != "conforms":
        item.add_report_section("call", "lossgate", result.headline)


def _failure(runs: Runs, run: Run, result: CellResult) -> Iterator[str]:
    yield result.headline
    errors = ", ".join(
        f"{name} {float(error['ratio']):.2g}"
        for name, error in (("loss", result.loss), ("gradient", result.gradient))
        if error.get("ratio") is not None
    )
    if errors:
        errors = f"; largest error / bound (above 1: not rounding): {errors}"
    yield f"{result.cell}: {result.failed} of {result.cases} cases fail{errors}"
    yield ""
    yield from _smallest(runs, run, result)
    if result.witness is not None:
        command = runs.command.replay(result.witness, run.target, run.facts["python"], result.device)
        yield f"replay, in {runs.command.root}:"
        yield f"  {command}"


def _smallest(runs: Runs, run: Run, result: CellResult) -> Iterator[str]:
    """What is wrong in the smallest case that was found, in words, and as a table once for the same thing."""
    # A target that hangs or dies would do so again.
    shown, table = runs.table(run, result) if result.verdict == "diverges" else (result.cell, "")
    if table and shown == result.cell:
        yield table
    else:
        yield result.message
    if shown != result.cell:
        yield f"token by token: the test of {shown} shows such a case"
    yield ""
