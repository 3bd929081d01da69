"""A stored case put to a target again."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cases.case import Case, CaseFormatError
from harness.config import Config
from harness.errors import UsageError, did_you_mean
from harness.exit_codes import ExitCode
from harness.judge import Judgement, judge
from harness.judging import client_for, contestant
from harness.outcome import Outcome
from harness.plan import Plan
from oracles.batched.dispatch import expect
from oracles.expectation import Expectation
from reports.records import Cell, Divergence, Verdict


@dataclass(frozen=True, eq=False)
class Replayed:
    """What became of the case this time, with what was expected and what was answered."""

    case: Case
    cell: Cell
    judgement: Judgement
    expectation: Expectation
    outcome: Outcome

    @property
    def exit_code(self) -> ExitCode:
        """0 where it conforms or overflows, 1 where it fails, 4 where it was not compared."""
        if self.judgement.verdict is Verdict.UNSUPPORTED:
            return ExitCode.INCOMPARABLE
        return ExitCode.DIVERGES if self.judgement.verdict.fails else ExitCode.CONFORMS

    def lines(self) -> list[str]:
        """The result in plain text."""
        cell, found = self.cell, self.judgement
        lines = [
            f"{cell}  case {self.case.id}",
            f"  {found.verdict}: {found.verdict.about}",
        ]
        lines += [f"  {line}" for line in found.message.splitlines()]
        for name, divergence in (("loss", found.loss), ("gradient", found.gradient)):
            if not math.isnan(divergence.ratio):
                lines.append(
                    f"  {name}: error {divergence.absolute:.3g}, {divergence.ulps:.3g} ulps, "
                    f"error / bound {divergence.ratio:.3g}"
                )
        return lines

    def as_json(self) -> dict[str, Any]:
        """The result as JSON data; null where nothing was compared, "inf" where an error has no bound."""
        found = self.judgement
        return {
            "format": "lossgate-replay/1",
            "case": self.case.id,
            "cell": asdict(self.cell),
            "verdict": str(found.verdict),
            "message": found.message,
            "loss": _numbers(found.loss),
            "gradient": _numbers(found.gradient),
            "gradient_at": found.gradient_at,
            "exit_code": int(self.exit_code),
        }


def find(name: str, runs: Path) -> Path:
    """The file of a case: a path, or an id looked up in the runs below a folder, the newest first.

    Raises `UsageError` when there is none.
    """
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix == ".json" or "/" in name:
        raise UsageError(f"no case file {name}", "a run keeps its cases in its folder cases/")
    # A matrix keeps a run of each release in its folder.
    stored = sorted([*runs.glob("*/cases/*.json"), *runs.glob("*/*/cases/*.json")], reverse=True)
    found = [candidate for candidate in stored if name and candidate.stem.startswith(name)]
    ids = sorted({candidate.stem for candidate in found})
    if len(ids) == 1:
        return found[0]
    if ids:
        raise UsageError(f"{name!r} is the beginning of several cases: {', '.join(ids[:5])}")
    raise UsageError(
        f"no case {name!r} in {runs}: takes a case file, or the id of a case that a run there kept",
        did_you_mean(name, [candidate.stem for candidate in stored]),
    )


def plan_for(path: Path, target: str | None, **options: Any) -> Plan:
    """The plan that puts the case in a file to a target, or to that of the run it lies in.

    `options` are those of `Plan.of`. Raises `UsageError` when there is no target, or an option is wrong.
    """
    name = target if target is not None else requested_target(path)
    return Plan.of([name], settings=Config.load(None).settings, **options)


def plan_of_case(plan: Plan, case: Case) -> Plan:
    """A plan for the cell of a case, so that a function is known to compute its loss at its level."""
    return replace(plan, loss_types=(case.spec.loss_type,), levels=(case.spec.importance_sampling_level,))


def requested_target(path: Path) -> str:
    """The target of the run a case file lies in. Raises `UsageError` when that cannot be told."""
    described = path.resolve().parent.parent / "run.json"
    try:
        requested = json.loads(described.read_text(encoding="utf-8"))["requested"]
    except (OSError, ValueError, KeyError, TypeError):
        requested = []
    if len(requested) != 1:
        raise UsageError(
            f"no target given, and {path} does not lie in a run of one target",
            f"name it after the case{': one of ' + ', '.join(map(str, requested)) if requested else ''}",
        )
    return str(requested[0])


def stored_case(path: Path) -> Case:
    """The case in a file. Raises `UsageError` when it holds none."""
    try:
        return Case.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    except CaseFormatError as error:
        raise UsageError(f"{path}: {error}", "lossgate run writes case files into the folder of a run") from error


def replayed(path: Path, target: str, plan: Plan) -> Replayed:
    """Put the case in a file to a target.

    Raises `UsageError` when the file holds no case, `TargetUnavailable` when the target does not start.
    """
    case = stored_case(path)
    with client_for(plan_of_case(plan, case), target) as client:
        one = contestant(plan, target, client)
        expectation, outcome = expect(case), one.client.ask(case, one.device)
        return Replayed(case, one.cell(case), judge(case, expectation, outcome), expectation, outcome)


def _numbers(divergence: Divergence) -> dict[str, float | str | None]:
    return {name: _json(value) for name, value in asdict(divergence).items()}


def _json(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else "inf"
