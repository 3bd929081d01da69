"""The questions of a plan: one description in every cell, with the regions that its case is in there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

from cases.dtypes import DType
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.regions import Locator
from cases.spec import Level, LossType
from harness.asking import Contestant, Question
from harness.generation import LARGE, Scheduled
from harness.plan import Plan

Chosen = Callable[[LossType, Level, DType], bool]


def posed(plan: Plan, entry: Scheduled, chosen: Chosen = lambda *_: True) -> Iterator[Question]:
    """The questions of one scheduled description: one in every cell of the plan, or in those that are chosen."""
    for dtype, level in product(plan.dtypes, plan.levels):
        loss_types = [one for one in plan.loss_types if chosen(one, level, dtype)]
        if not loss_types:
            continue
        batch = realise(entry.description, dtype, level)
        locator = Locator()
        known: dict[tuple[object, ...], tuple[str, ...]] = {}
        for loss_type, beta in product(loss_types, plan.betas):
            case = case_for(entry.description, batch, loss_type, level, beta)
            # What regions depend on, beside the batch: the bounds, the loss's own parameters, and whether there
            # is a KL term.
            own = loss_type if loss_type in (LossType.SAPO, LossType.GMPO) else None
            key = (case.spec.ratio_bounds, own, beta > 0)
            if key not in known:
                known[key] = locator.regions_of(case)
            yield Question(case, known[key], entry.number, entry.phase)


class Questions:
    """The questions of a plan; those of the first descriptions may be there before they are needed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ahead: dict[int, list[Question]] = {}

    def pose(self, entries: Iterable[Scheduled], goes_on: Callable[[], bool]) -> None:
        """Pose those of one small description after the other, as long as there is time for it."""
        for entry in entries:
            if entry.phase == LARGE or not goes_on():
                return
            self._ahead[entry.number] = list(posed(self._plan, entry))

    def of(
        self, entry: Scheduled, contestants: Sequence[Contestant]
    ) -> Iterator[tuple[Question, Sequence[Contestant]]]:
        """One description in every cell, with the targets that have it; what was posed before is given once."""

        def having(loss_type: LossType, level: Level, dtype: DType) -> tuple[Contestant, ...]:
            return tuple(one for one in contestants if one.takes(loss_type, level, dtype))

        questions: Iterable[Question] | None = self._ahead.pop(entry.number, None)
        if questions is None:
            questions = posed(self._plan, entry, lambda *cell: bool(having(*cell)))
        for question in questions:
            spec, dtype = question.case.spec, question.case.batch.dtype
            takers = having(spec.loss_type, spec.importance_sampling_level, dtype)
            if takers:
                yield question, takers
