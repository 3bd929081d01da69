"""What a target answers to the probes of one loss at one level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from cases.case import Case
from cases.dtypes import DTYPES, FLOAT32, DType
from cases.spec import Level, LossSpec, LossType
from harness.asking import Contestant
from harness.identification.probes import probes
from harness.judge import judge
from harness.outcome import Outcome
from oracles.space.pieces import Pieces
from oracles.space.variant import KL, Variant
from reports.records import Verdict

FEATURES: Final[Mapping[str, str]] = {
    "old_logps": "old_logps that differ from logps",
    "beta": "a KL term",
    "token_advantages": "advantages per token",
    "importance_ratio": "importance ratios",
    "split": "a split over accumulation steps",
}
"""What a probe may have that tells formulas apart, in words."""

_ADDED: Final = ("token_advantages", "importance_ratio", "split")


@dataclass(frozen=True, eq=False)
class Answered:
    """A probe, by its number from 1, and the answer to it; `pieces` are the space's points on it."""

    number: int
    case: Case
    outcome: Outcome
    pieces: Pieces

    def explained_by(self, point: Variant) -> bool:
        """Whether the answer is a point's, within rounding."""
        # The loss alone rules most points out, before a gradient is formed.
        loss = self.outcome.loss
        if loss is None or not self.pieces.may_lose(point, loss):
            return False
        found = judge(self.case, self.pieces.expectation(point), self.outcome)
        return found.verdict is Verdict.CONFORMS

    @cached_property
    def features(self) -> frozenset[str]:
        """Which of `FEATURES` the probe has."""
        batch = self.case.batch
        having = {
            "old_logps": batch.old_logps is not None,
            "beta": self.case.spec.beta > 0,
            "token_advantages": batch.advantages.ndim == 2,
            "importance_ratio": batch.importance_ratio is not None,
            "split": not self.case.split.is_whole,
        }
        return frozenset(name for name, has in having.items() if has)

    @property
    def words(self) -> str:
        """Which probe it is, and what it has that the first has not."""
        added = [FEATURES[name] for name in _ADDED if name in self.features]
        return f"probe {self.number}" + (f" ({', '.join(added)})" if added else "")


@dataclass(frozen=True)
class Answers:
    """All of them; `refusals` and `failures` say what became of probes that were not answered, in words."""

    asked: LossSpec
    answered: tuple[Answered, ...]
    refusals: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @cached_property
    def features(self) -> frozenset[str]:
        """What at least one answered probe has."""
        return frozenset().union(*(one.features for one in self.answered))

    def expresses(self, point: Variant) -> bool:
        """Whether the probes could show the point for what it is: without beta, no KL term is seen."""
        return point.kl is KL.NONE or "beta" in self.features


@dataclass
class Sheets:
    """The space's points on the probes met so far: losses that share bounds and conventions share them."""

    _known: dict[str, Pieces] = field(default_factory=dict)

    def of(self, case: Case) -> Pieces:
        """The points on a case, whose loss type and level say nothing about them."""
        alike = replace(
            case,
            spec=replace(case.spec, loss_type=LossType.GRPO, importance_sampling_level=Level.TOKEN),
        )
        return self._known.setdefault(alike.id, Pieces(alike))


def answers(one: Contestant, loss_type: LossType, level: Level, sheets: Sheets) -> Answers:
    """Put the probes to a target; what it refuses is put in a plainer form."""
    answered: list[Answered] = []
    refusals: dict[str, None] = {}
    failures: list[str] = []
    spec = None
    for number, forms in enumerate(probes(loss_type, level, _dtype(one), one.facts.supports), 1):
        for form in forms:
            case = one.under_conventions(form)
            spec = spec or case.spec
            outcome = one.client.ask(case, one.device)
            if outcome.status == "ok":
                answered.append(Answered(number, case, outcome, sheets.of(case)))
                break
            sentence = outcome.message.splitlines()[0]
            if outcome.status != "unsupported":
                failures.append(f"probe {number}: {outcome.status}: {sentence}")
                break
            refusals[sentence] = None
    assert spec is not None, "there is a first probe"
    return Answers(spec, tuple(answered), tuple(refusals), tuple(failures))


def _dtype(one: Contestant) -> DType:
    supported = one.facts.supports.dtypes
    return FLOAT32 if "float32" in supported or not supported else DTYPES[supported[0]]
