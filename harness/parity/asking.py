"""An execution is asked all its cases, then again in another order, then in a fresh process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.asking import Contestant
from harness.outcome import Outcome
from harness.parity.execution import Execution
from harness.parity.questions import VALUES, CellKey, Purpose, Question

FRESH_EVERY: Final = 8 * VALUES
"""Of a compiled execution's cases, so many are one that a fresh process is asked: it compiles anew."""

_UNANSWERED: Final = ("unsupported", "crash", "timeout")


@dataclass(frozen=True, eq=False)
class Answers:
    """What became of one question: at first, again in the same process, and in a fresh one (None: not asked)."""

    question: Question
    first: Outcome
    again: Outcome | None = None
    fresh: Outcome | None = None


@dataclass(frozen=True)
class Lane:
    """An execution in a process of its own, and the cells that it is asked."""

    execution: Execution
    one: Contestant
    cells: Mapping[CellKey, Sequence[Question]]

    def answers(self, tick: Callable[[int], None]) -> dict[CellKey, list[Answers]]:
        """Ask everything; `tick` is called before every question, with 1 in the first round and 0 later."""
        asked = [
            (cell, question)
            for cell, questions in self.cells.items()
            for question in questions
            # Of another shape: each would be compiled for a sum that the compiler does not touch.
            if question.purpose is Purpose.ORDINARY or not self.execution.is_compiled
        ]

        def ask(number: int, attempt: int) -> Outcome:
            tick(int(attempt == 0))
            case = self.one.under_conventions(asked[number][1].case)
            return self.one.client.ask(case, self.execution.device, attempt=attempt)

        first = [ask(number, 0) for number in range(len(asked))]
        answered = [number for number, outcome in enumerate(first) if outcome.status not in _UNANSWERED]
        again = {number: ask(number, 1) for number in reversed(answered)}
        self.one.client.close()
        every = FRESH_EVERY if self.execution.is_compiled else 1
        fresh = {number: ask(number, 2) for number in answered[::every]}
        found: dict[CellKey, list[Answers]] = {cell: [] for cell in self.cells}
        for number, (cell, question) in enumerate(asked):
            found[cell].append(Answers(question, first[number], again.get(number), fresh.get(number)))
        return found
