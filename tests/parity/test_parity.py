"""What a parity check says of executions, through the command's own plan."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cases.case import Case
from cases.descriptions import Advantage, Bounds, Description, Layout, Ratio, Row
from cases.dtypes import BFLOAT16, FLOAT32
from cases.hyperparameters import case_for
from cases.realisation import realise
from cases.spec import Level, LossType
from harness.client import WorkerClient
from harness.exit_codes import ExitCode
from harness.judge import judge
from harness.parity.explaining import contract_of, explanation
from harness.parity.judged import Judged
from harness.parity.parity import check
from harness.parity.plan import ParityPlan
from harness.parity.questions import Purpose, Question, Questioner, cells_of, covering
from harness.plan import Plan
from oracles.expectation import expect
from oracles.named_contracts import ORDINARY, accumulates_in, expect_under, fast_exp
from reports.parity import PairVerdict, Parity
from reports.records import Verdict

KERNELS = "tests.parity.kernels"


def checked(kernel: str, dtypes: str = "float32", **options: Any) -> Parity:
    """What a parity check of one of the kernels says, in one cell of each dtype."""
    plan = ParityPlan.of(
        f"{KERNELS}:{kernel}",
        loss_types="dr_grpo",
        levels="token",
        betas="0",
        dtypes=dtypes,
        **{"examples": 1, **options},
    )
    return check(plan, lambda _count: None).parity


def test_an_accumulator_of_the_dtypes_own_is_named() -> None:
    """Right in float32 and adding up in bfloat16 is what is said, and of bfloat16 alone."""
    found = checked("sums_in_own_dtype", "float32,bfloat16")
    assert found.findings == (
        "cpu: right in float32, not in bfloat16: sums are accumulated in bfloat16; "
        "the contract is float32 or better (dr_grpo token beta 0)",
    )
    assert found.exit_code == 1


def test_another_fault_of_long_completions_is_not_called_an_accumulator() -> None:
    """What forgets a long tail in half types is wrong there too, and no sum is blamed."""
    found = checked("drops_long_tails", "float32,bfloat16")
    assert found.exit_code == 1
    assert found.findings
    assert not any("accumulated" in finding for finding in found.findings)
    assert "only completions of 1,024 tokens show it: loss is" in found.findings[0]


def test_a_target_that_moves_is_nondeterministic() -> None:
    """Tokens dropped at random are named as such, and it is the first thing that is said."""
    found = checked("noisy")
    assert found.findings[0].startswith("cpu: nondeterministic: ")
    assert [voice.verdict for voice in found.cells[0].voices] == [Verdict.NONDETERMINISTIC]
    assert found.exit_code == 1


def test_another_order_of_adding_is_within_rounding() -> None:
    """Sums in a random order have other bits, and nothing is held against them."""
    found = checked("reorders")
    assert found.executions[0].repeated is not None
    assert found.executions[0].repeated.words.startswith("differs within rounding")
    assert found.exit_code == 0
    assert not found.findings


def test_half_precision_inside_is_read_off_the_errors() -> None:
    """An exponential in bfloat16 leaves a float32 loss with the bits of bfloat16; a sound one keeps its own."""
    found = checked("half_inside")
    assert found.precisions[0].computed_in == "half precision"
    assert 5 < found.precisions[0].bits < 11
    assert any("something here is computed in half precision" in finding for finding in found.findings)
    assert 20 < checked("sound").precisions[0].bits < 26


def test_a_fault_of_the_formula_is_not_blamed_on_the_other_target() -> None:
    """Against a wrong target, which is then the reference, the sound one stays equal to the formula."""
    found = checked("sound", against=f"{KERNELS}:wrong")
    assert [pair.verdict for pair in found.cells[0].pairs] == [PairVerdict.REFERENCE_OUTSIDE]
    assert "loss and gradient x 1.03" in found.findings[0]
    assert [one.name for one in found.executions] == [f"{KERNELS}:wrong cpu", f"{KERNELS}:sound cpu"]
    assert found.target == f"{KERNELS}:sound"


def test_a_number_and_none_are_infinitely_apart() -> None:
    """NaN beside a number is no distance of 0, and has no bits that are right."""
    found = checked("not_a_number", against=f"{KERNELS}:sound")
    (pair,) = found.cells[0].pairs
    assert pair.verdict is PairVerdict.OTHER_OUTSIDE
    assert (pair.apart.loss_ulps, pair.apart.gradient_ulps, pair.apart.same_bits) == (math.inf, math.inf, 0)


def test_a_fault_in_both_executions_is_not_about_how_it_is_executed() -> None:
    """With one thread and with two it is equally wrong; the next step is an ordinary run."""
    found = checked("wrong", threads="1,2")
    assert [pair.verdict for pair in found.cells[0].pairs] == [PairVerdict.BOTH_OUTSIDE]
    assert any("next: lossgate run tests.parity.kernels:wrong" in finding for finding in found.findings)
    assert [one.name for one in found.executions] == ["cpu 1 thread", "cpu 2 threads"]


def test_a_compiler_that_goes_another_way_is_found() -> None:
    """What is wrong only under inductor is outside there, and was compiled there in every case."""
    found = checked("wrong_when_compiled", compilers="eager,inductor")
    compiled = found.executions[1].compiled
    assert compiled is not None
    assert (compiled.with_graphs, compiled.without) == (4, 0)
    assert compiled.operations > 0
    assert [pair.verdict for pair in found.cells[0].pairs] == [PairVerdict.OTHER_OUTSIDE]


def test_what_a_compiler_cannot_take_is_an_error_of_that_execution() -> None:
    """The check goes on, and says whose error it is."""
    found = checked("fails_when_compiled", compilers="eager,inductor")
    assert [voice.verdict for voice in found.cells[0].voices] == [Verdict.CONFORMS, Verdict.ERROR]
    assert found.findings[0].startswith("cpu inductor: outside the bound in dr_grpo token beta 0 float32: error: ")
    assert found.exit_code == 1


def test_equality_with_what_was_never_compiled_says_nothing() -> None:
    """Where the compiler leaves everything alone, that is said."""
    found = checked("never_compiled", compilers="eager,inductor")
    assert found.executions[1].compiled is not None
    assert found.executions[1].compiled.with_graphs == 0
    assert found.findings == (
        "cpu inductor: nothing was compiled: this is eager, so that it equals eager says nothing",
    )


def test_a_device_that_is_not_there_is_not_a_fault() -> None:
    """It is listed with torch's reason; with nothing left to compare, the exit code says so."""
    found = checked("sound", devices="cpu,xpu")
    assert found.executions[1].why_not.startswith("no device 'xpu'")
    assert found.exit_code == 4
    assert found.reference is found.executions[0]


def test_a_compiled_execution_is_asked_so_that_losses_meet_levels_and_betas() -> None:
    """The cells for a compiler are half of all, and hold every pair of loss and level, loss and beta."""
    plan = Plan.of(["trl"], dtypes="float32,bfloat16")
    cells = covering(plan)
    assert len(cells) == len(list(cells_of(plan))) / 2
    for dtype in plan.dtypes:
        for other in ("level", "beta"):
            pairs = {(cell.loss_type, getattr(cell, other)) for cell in cells if cell.dtype is dtype}
            assert len(pairs) == 2 * len(plan.loss_types)


def test_the_cases_of_a_description_differ_in_numbers_alone() -> None:
    """Nothing is compiled anew for them: sizes, parameters and which tensors there are stay the same."""
    plan = Plan.of(["trl"], loss_types="grpo", levels="token", betas="0", dtypes="float32", examples=1)
    (cell,) = cells_of(plan)
    cases = [question.case for question in Questioner(plan).ordinary(cell)]
    assert len({case.id for case in cases}) == 4
    assert len({(case.batch.logps.shape, case.spec, case.batch.ref_logps is None) for case in cases}) == 1


def test_what_was_refused_does_not_conform() -> None:
    """A target that answers only the long cases, where no clip acts, was not compared."""
    found = checked("knows_no_clip")
    assert [voice.verdict for cell in found.cells for voice in cell.voices] == [Verdict.UNSUPPORTED]
    assert found.exit_code == ExitCode.INCOMPARABLE


@pytest.mark.parametrize("name", ["long_sums_vanish", "long_sums_turn"])
def test_a_wrong_long_loss_is_no_accumulator(name: str) -> None:
    """Where the loss of long completions alone is wrong, it is called an accumulator's only if it falls short."""
    found = checked(name, dtypes="float32,bfloat16")
    assert found.exit_code == ExitCode.DIVERGES
    assert not any("accumulated" in finding for finding in found.findings)
    assert any("only completions of" in finding for finding in found.findings)


def test_a_fast_exponential_holds_under_its_contract() -> None:
    """An argument rounded once more is outside the ordinary bound, and the contract that allows it is named."""
    case = _far_above()
    with WorkerClient(sys.executable, f"{KERNELS}:fast_exp", {"loss_type": "dr_grpo"}, cwd=Path.cwd()) as client:
        outcome = client.ask(case)
    expectation = expect(case)
    judgement = judge(case, expectation, outcome)
    assert judgement.verdict is Verdict.DIVERGES
    one = Judged(Question(case, (), Purpose.ORDINARY), case, expectation, outcome, judgement)
    assert contract_of([one], ORDINARY) == "fast_exp"
    assert explanation([one], "fast_exp") == "would hold under contract fast_exp (--contract fast_exp)"
    assert judge(case, expect_under(case, fast_exp(FLOAT32)), outcome).verdict is Verdict.CONFORMS
    assert contract_of([one], "fast_exp") == ""
    beside = replace(one, outcome=replace(outcome, loss=1.01 * (outcome.loss or 1.0)))
    # What another failing case of the execution contradicts excuses none of them.
    assert contract_of([one, replace(beside, judgement=judge(case, expectation, beside.outcome))], ORDINARY) == ""


def test_a_coarse_accumulator_widens_the_bound_of_sums_alone() -> None:
    """In bfloat16 a sum of many terms may be far off; an exponential may not."""
    row = Row(Layout.FULL, ratios=(Ratio.INSIDE,), advantage=Advantage.POSITIVE)
    description = Description((row,), columns=64)
    case = case_for(description, realise(description, BFLOAT16, Level.TOKEN), LossType.GRPO, Level.TOKEN, 0.0)
    ordinary, coarse = expect(case), expect_under(case, accumulates_in(BFLOAT16, BFLOAT16))
    assert coarse.loss.bound[0] > 5 * ordinary.loss.bound[0]
    assert math.isclose(coarse.gradients[0].bound.max(), ordinary.gradients[0].bound.max(), rel_tol=1e-9)


def _far_above() -> Case:
    """Tokens of large ratios that no bound holds back."""
    row = Row(Layout.FULL, ratios=(Ratio.BEYOND_20,), advantage=Advantage.NEGATIVE)
    description = Description((row,) * 16, columns=1, bounds=Bounds.DEFAULT)
    batch = realise(description, FLOAT32, Level.TOKEN)
    batch = replace(batch, advantages=-1.0 * (batch.advantages != 0))
    return case_for(description, batch, LossType.DR_GRPO, Level.TOKEN, 0.0)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"compilers": "inductr"}, "no compiler named 'inductr'"),
        ({"threads": "0"}, "--threads: got '0'"),
        ({"contract": "fastexp"}, "no contract named 'fastexp'"),
        ({"devices": ","}, "--devices: got none"),
    ],
)
def test_wrong_usage_is_a_sentence(options: dict[str, str], says: str) -> None:
    """Each option says what it got and what it takes."""
    with pytest.raises(ValueError, match=says):
        checked("sound", **options)
