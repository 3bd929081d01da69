"""The rounding bound: no correct implementation exceeds it, and some come near it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Final

import numpy as np
import pytest
import torch
from bare_cases import bare, bare_case, drawn
from closed_forms import LOSSES
from flint import arb
from plain_torch import outcome_of

from cases.case import Case
from cases.descriptions import Ratio
from cases.dtypes import DTYPES, FLOAT16, FLOAT32, DType
from cases.schedule import boundary_descriptions
from cases.spec import Level
from harness.judge import Judgement, judge
from harness.outcome import Outcome
from oracles import operations as operation_rules
from oracles import scalar
from oracles.contract import Contract
from oracles.expectation import expect
from oracles.operations import exp
from oracles.scalar import Scalar
from oracles.tape import Tape
from reports.records import Verdict

DESCRIPTIONS: Final = 150
BETAS: Final = (0.0, 0.04)
TIGHT: Final = 0.2
"""Some error must reach this share of the bound: a bound ten times too large fails."""

every_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))


@cache
def answered(dtype: DType) -> tuple[tuple[Case, Outcome], ...]:
    """Drawn cases of one dtype at every level, loss type and beta, with the answers of plain PyTorch."""
    return tuple((case, outcome_of(case)) for case in _cases(dtype))


def _cases(dtype: DType) -> Iterator[Case]:
    for description in drawn(DESCRIPTIONS, 11):
        for level, loss_type, beta in product(Level, LOSSES, BETAS):
            yield bare_case(description, dtype, level, loss_type, beta)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """PyTorch on one thread: these tensors are too small to share out."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclass
class Worst:
    """The largest shares of the bound that were used up."""

    loss: float = 0.0
    gradient: float = 0.0

    def add(self, judgement: Judgement) -> None:
        self.loss = np.nanmax([self.loss, judgement.loss.ratio])
        self.gradient = np.nanmax([self.gradient, judgement.gradient.ratio])


@every_dtype
def test_plain_torch_stays_within_the_bound(dtype: DType) -> None:
    """Loss and gradient of a correct implementation conform; a bound ten times as large would be too large."""
    worst, verdicts = Worst(), []
    for case, outcome in answered(dtype):
        judgement = judge(case, expect(case), outcome)
        assert judgement.verdict in (Verdict.CONFORMS, Verdict.OVERFLOW), (case.to_json(), judgement.message)
        verdicts.append(judgement.verdict)
        worst.add(judgement)
    assert len(verdicts) == DESCRIPTIONS * len(Level) * len(LOSSES) * len(BETAS)
    assert worst.loss > TIGHT
    assert worst.gradient > TIGHT
    # Only float16 overflows on what is drawn: its ratios end at 65504.
    assert verdicts.count(Verdict.OVERFLOW) < 0.1 * len(verdicts)
    assert dtype is FLOAT16 or Verdict.OVERFLOW not in verdicts


@every_dtype
def test_overflow_is_shown_as_such(dtype: DType) -> None:
    """Batches made to overflow end as overflow or conform, with all that is finite within the bound."""
    verdicts = set()
    overflowing = [one for one in boundary_descriptions() if Ratio.OVERFLOW in one.rows[0].ratios]
    for description, level, loss_type in product(overflowing, Level, LOSSES):
        case = bare_case(bare(description), dtype, level, loss_type, 0.04)
        verdicts.add(judge(case, expect(case), outcome_of(case)).verdict)
    assert verdicts == {Verdict.CONFORMS, Verdict.OVERFLOW}


def alarms(dtype: DType) -> int:
    """How many of every fourth answer the bound, as it now is, does not explain."""
    judged = (judge(case, expect(case), outcome) for case, outcome in answered(dtype)[::4])
    return sum(judgement.verdict is Verdict.DIVERGES for judgement in judged)


@pytest.mark.parametrize(
    ("dtype", "shrunk", "factor"),
    [(FLOAT32, "u", 0.0), (FLOAT32, "u", 0.25), (FLOAT16, "u", 0.25), (FLOAT16, "eta", 0.0)],
)
def test_smaller_contract_alarms(
    dtype: DType, shrunk: str, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound that leaves out what implementations do calls correct ones wrong."""
    assert alarms(dtype) == 0
    standard = Contract.of(dtype)
    contract = replace(standard, **{shrunk: getattr(standard, shrunk) * factor})
    monkeypatch.setattr(Contract, "of", lambda _: contract)
    assert alarms(dtype) > 0


def operations(dtype: DType, value: float) -> dict[str, tuple[Scalar, Callable[[torch.Tensor], torch.Tensor]]]:
    """Single operations on an input, as formulas and as PyTorch computes them."""
    tape = Tape(Contract.of(dtype), dtype.holds)
    x, third = tape.leaf(value), float(dtype.round(1 / 3))
    return {
        "exp": (exp(x), torch.exp),
        "product": (x * 3.0, lambda x: x * 3.0),
        "difference": (x - tape.exact(third), lambda x: x - third),
        "quotient": (x / 7, lambda x: x / 7),
        "reciprocal": (x / 7, lambda x: x * torch.tensor(7.0, dtype=x.dtype).reciprocal()),
    }


def largest_shares(dtype: DType) -> dict[str, float]:
    """For single operations on random inputs the largest error / radius."""
    shares: dict[str, float] = {}
    for value in dtype.round(np.random.default_rng(5).uniform(-3.0, 1.0, 400)).tolist():
        for name, (formula, compute) in operations(dtype, value).items():
            computed = compute(torch.tensor(value, dtype=getattr(torch, dtype.name))).item()
            error = abs(float(arb(computed) - formula.value))
            shares[name] = max(shares.get(name, 0.0), error / formula.radius)
    return shares


@every_dtype
def test_single_operations_stay_within_their_radius(dtype: DType) -> None:
    """What is charged for one operation covers PyTorch's, and not several times over."""
    for name, share in largest_shares(dtype).items():
        assert 0.2 < share <= 1.0, name


@pytest.mark.parametrize(("constant", "operation"), [("EXP_ULPS", "exp"), ("DIVISION_ROUNDINGS", "reciprocal")])
@every_dtype
def test_forgotten_operation_alarms(
    dtype: DType, constant: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the error of exp, or of a reciprocal, the radius does not cover them."""
    for module in (scalar, operation_rules):
        monkeypatch.setattr(module, constant, 0.0, raising=False)
    assert largest_shares(dtype)[operation] > 1.0
