"""Is an adapter sound? Three cases that pass whatever the implementation's faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cases.batch import Batch
from cases.case import Case
from cases.dtypes import DTYPES, FLOAT32, DType
from cases.spec import Level, LossSpec, LossType
from harness.asking import Contestant
from harness.client import Outcome

_BETA: Final = 0.5


@dataclass(frozen=True)
class Check:
    """One thing a sound adapter does; `message` says what was seen instead, or "" where it passed."""

    name: str
    passed: bool
    message: str = ""


def smoke(one: Contestant) -> Iterator[Check]:
    """Ask a target the three cases: does it answer, does it react to every input, are its inputs unchanged."""
    case = _case(one)
    answer = one.client.ask(case, one.device)
    yield _answers(answer)
    if answer.status != "ok":
        return
    yield _reacts(one, case, answer)
    # The worker compares every tensor with what it was, and answers "error" where one changed.
    again = one.client.ask(case, one.device)
    yield Check("leaves its inputs unchanged", again.status == "ok", again.message)


def _dtype(one: Contestant) -> DType:
    supported = one.facts.supports.dtypes
    return FLOAT32 if "float32" in supported or not supported else DTYPES[supported[0]]


def _case(one: Contestant) -> Case:
    """Three ragged completions: inside, above and below the clip bounds, with both signs of the advantage."""
    supports = one.facts.supports
    dtype = _dtype(one)
    logps = dtype.round([[-0.5, -1.0, -0.25, -2.0], [-1.5, -0.75, -1.0, -0.5], [-0.3, -0.9, -0.6, -0.7]])
    log_ratios = np.array([[0.1, -0.05, 0.9, 0.3], [-0.1, -0.75, 0.5, 0.2], [0.02, 0.6, -0.7, 0.1]])
    beta = _BETA if "beta" in supports.options else 0.0
    loss_type = LossType(next((known for known in supports.loss_types if known in set(LossType)), "grpo"))
    return one.under_conventions(
        Case(
            Batch(
                dtype=dtype,
                logps=logps,
                old_logps=dtype.round(logps - log_ratios) if "old_logps" in supports.options else None,
                ref_logps=dtype.round(logps + log_ratios[::-1]) if beta else None,
                advantages=dtype.round([1.0, -0.5, 0.75]),
                mask=np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=bool),
            ),
            LossSpec(
                loss_type,
                Level.TOKEN,
                beta,
                # Alike, for those that take one bound for both sides.
                epsilon_low=0.25,
                epsilon_high=1.25 if loss_type is LossType.CISPO else 0.25,
                max_completion_length=7,
            ),
        )
    )


def _answers(answer: Outcome) -> Check:
    name = "answers with a finite loss and gradient"
    if answer.status != "ok":
        return Check(name, False, answer.message)
    finite = np.isfinite(answer.loss) and np.isfinite(answer.gradient).all()  # type: ignore[arg-type]  # both are there
    return Check(name, bool(finite), "" if finite else "the loss or the gradient is not finite")


def _reacts(one: Contestant, case: Case, answer: Outcome) -> Check:
    deaf = [name for name, changed in _changes(case) if _same(answer, one.client.ask(changed, one.device))]
    listed = ", ".join(deaf)
    return Check("reacts to every input it supports", not deaf, f"no reaction to {listed}" if deaf else "")


def _changes(case: Case) -> Iterator[tuple[str, Case]]:
    """The case with one input changed where every loss of its kind must notice."""
    batch, spec = case.batch, case.spec

    def with_batch(**fields: object) -> Case:
        return replace(case, batch=replace(batch, **fields))  # type: ignore[arg-type]

    yield "logps", with_batch(logps=batch.dtype.round(batch.logps - 0.0625))
    yield "advantages", with_batch(advantages=2.0 * batch.advantages)
    mask = batch.mask.copy()
    mask[0, 2] = False
    yield "mask", with_batch(mask=mask)
    if batch.old_logps is not None:
        yield "old_logps", with_batch(old_logps=batch.dtype.round(batch.old_logps + 0.0625))
        yield "epsilon_high", replace(case, spec=replace(spec, epsilon_high=spec.epsilon_high + 0.125))
        if spec.loss_type is not LossType.CISPO:
            yield "epsilon_low", replace(case, spec=replace(spec, epsilon_low=spec.epsilon_low + 0.125))
    if batch.ref_logps is not None:
        yield "ref_logps", with_batch(ref_logps=batch.dtype.round(batch.ref_logps + 0.5))
        yield "beta", replace(case, spec=replace(spec, beta=2.0 * spec.beta))
    if spec.loss_type is LossType.DR_GRPO:
        yield "max_completion_length", replace(case, spec=replace(spec, max_completion_length=14))


def _same(first: Outcome, second: Outcome) -> bool:
    if second.status != "ok":
        return False
    assert first.gradient is not None
    assert second.gradient is not None
    return first.loss == second.loss and np.array_equal(first.gradient, second.gradient)
