"""A failing case, and all that its script says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from cases.case import Case
from cases.dtypes import FloatArray
from cases.large import is_large
from harness.asking import Contestant
from harness.judge import bits_equal, judge
from harness.outcome import TargetFacts
from harness.padding import garbage
from harness.releases.libraries import LIBRARIES
from harness.releases.release import Release
from oracles.expectation import expect
from reports.records import Verdict

WAYS: Final = {"loss": "the loss differs", "gradient": "the gradient differs", "both": "loss and gradient differ"}


class NoScript(Exception):
    """There is no script for a case; the text is a sentence that says why."""


def check_name(name: str) -> None:
    """Raises `NoScript` for a target that nobody without lossgate can call."""
    if name.startswith("fault:"):
        raise NoScript(f"{name} is a part of lossgate, without which it cannot be called")
    if Release.of(name) is None and name not in LIBRARIES and ":" not in name:
        raise NoScript(f"how {name} is called is known to the package alone that ships it as a target")


def check_size(case: Case) -> None:
    """Raises `NoScript` for a batch whose numbers nobody would read, or paste into an issue."""
    if is_large(case.batch):
        raise NoScript(
            f"a batch of {case.batch.mask.size:,} positions is too large for one; its case file has every number, "
            "and lossgate replay puts it to a target"
        )


@dataclass(frozen=True, eq=False)
class Finding:
    """A failing case.

    * `name`: what the target is opened as, such as "trl==1.9.0" or "my_pkg.losses:loss", in the interpreter that
      `python` names; `facts`: what it says of itself.
    * `verdict`, `message`: how the case ended; `reason`: what is wrong with the target, in one line.
    * `off`: "loss", "gradient" or "both", where the case diverges.
    * `instead`: tensors of the case with other values at masked positions, where those are what fails.
    """

    case: Case
    name: str
    python: str
    facts: TargetFacts
    device: str
    verdict: Verdict
    message: str
    reason: str
    off: str = "both"
    instead: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def library(self) -> str:
        """The name without a release."""
        release = Release.of(self.name)
        return self.name if release is None else release.library.name

    def leaking(self, one: Contestant) -> Self | None:
        """The finding with numbers at masked positions that must not matter, and do; None where there are none.

        Raises `NoScript` where that moves the answer by no more than rounding could.
        """
        expectation = expect(self.case)
        clean = one.client.ask(self.case, self.device)
        leaks = False
        for dirty in garbage(self.case):
            if dirty.line not in one.promises:
                continue
            instead = {dirty.tensor: dirty.values}
            outcome = one.client.ask(self.case, self.device, instead)
            leaks = leaks or not bits_equal(clean, outcome)
            judged = judge(self.case, expectation, outcome)
            if judged.verdict.fails:
                reason = f"{dirty.line} values of {dirty.tensor} at masked positions change the answer"
                return replace(
                    self, verdict=judged.verdict, message=judged.message, reason=reason, instead=instead
                )
        if leaks:
            raise NoScript(
                f"what stands at masked positions changes the answer of {self.facts.label} by no more than "
                "rounding could, which a comparison with the formula cannot show"
            )
        return None
