"""The finding in a stored case, from what its run says of it and how it ends when it is put again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness.asking import Contestant
from harness.errors import UsageError
from harness.judge import Judgement, agree, judge
from harness.judging import client_for, contestant
from harness.plan import Plan
from harness.reason import alone, of_the_cell
from harness.replay import plan_of_case, stored_case
from harness.reproducer.finding import Finding, check_name, check_size
from harness.signature.evidence import Answered
from oracles.expectation import expect
from reports.records import Divergence, Verdict


def finding_in(path: Path, target: str, plan: Plan) -> Finding:
    """Put the case in a file to a target, twice, and say what is wrong.

    Raises `UsageError` when the file holds no case or the target does not fail it, `TargetUnavailable` when it
    does not start, and `NoScript` where no script could show what is wrong.
    """
    check_name(plan.settings_of(target).name)
    case = stored_case(path)
    check_size(case)
    with client_for(plan_of_case(plan, case), target) as client:
        one = contestant(plan, target, client)
        expectation = expect(case)
        outcome = client.ask(case, one.device)
        judged = judge(case, expectation, outcome)
        found = _finding(path, target, plan, one, Answered(case, outcome), judged)
        if judged.verdict in (Verdict.CRASH, Verdict.TIMEOUT):
            return found
        if not agree(expectation, outcome, client.ask(case, one.device, attempt=1)):
            return replace(found, verdict=Verdict.NONDETERMINISTIC, message="")
        if judged.verdict.fails:
            return found
        if judged.verdict is Verdict.UNSUPPORTED:
            raise UsageError(f"{one.facts.label} does not take case {case.id}: {judged.message}")
        leaking = found.leaking(one)
        if leaking is not None:
            return leaking
    raise UsageError(
        f"{one.facts.label} does not fail case {case.id}: there is nothing to reproduce",
        f"name a target or a release that does: lossgate reproduce {path} TARGET",
    )


def off(loss: Divergence, gradient: Divergence) -> str:
    """Which of the two is further from the formula than rounding can explain."""
    found = [name for name, one in (("loss", loss), ("gradient", gradient)) if one.ratio > 1.0]
    return found[0] if len(found) == 1 else "both"


def _finding(
    path: Path, target: str, plan: Plan, one: Contestant, answered: Answered, judged: Judgement
) -> Finding:
    settings = plan.settings_of(target)
    reason = of_the_cell(one.cell(answered.case), path)
    if not reason and judged.verdict.fails:
        reason = alone(answered)
    return Finding(
        case=answered.case,
        name=settings.name,
        python=settings.python or plan.python,
        facts=one.facts,
        device=one.device,
        verdict=judged.verdict,
        message=judged.message,
        reason=reason,
        off=off(judged.loss, judged.gradient),
    )
