"""Whether an answer is what the formula says: explained by rounding, or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cases.case import Case
from cases.dtypes import FloatArray
from cases.spec import Level
from harness.client import Outcome
from oracles.expectation import Exact, Expectation
from reports.records import NOT_COMPARED, Divergence, Verdict

REPEAT_FACTOR: Final = 2.0
"""Two answers within the bound of the same exact number are at most twice the bound apart."""

_UNANSWERED: Final = {
    "unsupported": Verdict.UNSUPPORTED,
    "error": Verdict.ERROR,
    "crash": Verdict.CRASH,
    "timeout": Verdict.TIMEOUT,
}


@dataclass(frozen=True)
class Judgement:
    """How one case ended: the verdict, by how much, where in the gradient, and in words ("" if it conforms)."""

    verdict: Verdict
    loss: Divergence = NOT_COMPARED
    gradient: Divergence = NOT_COMPARED
    gradient_at: tuple[int, int] | None = None
    message: str = ""


def judge(case: Case, expectation: Expectation, outcome: Outcome) -> Judgement:
    """Compare an outcome with what the oracle expects.

    Where rounding can decide that the value jumps, the outcome must match one expectation as a whole.
    """
    # Numbers that are not finite, and 0 / 0, are looked at where they occur.
    with np.errstate(all="ignore"):
        if not expectation.others:
            return _judge(case, expectation, outcome)
        ways = [_judge(case, way, outcome) for way in (expectation, *expectation.others)]
    return min(ways, key=_distance)


def _distance(judgement: Judgement) -> float:
    ratios = (judgement.loss.ratio, judgement.gradient.ratio)
    return max((ratio for ratio in ratios if not np.isnan(ratio)), default=0.0)


def _judge(case: Case, expectation: Expectation, outcome: Outcome) -> Judgement:
    if outcome.status != "ok":
        return Judgement(_UNANSWERED[outcome.status], message=outcome.message)
    if outcome.loss is None or outcome.gradient is None:
        raise ValueError("outcome: an answer has a loss and a gradient")
    loss, loss_fault, loss_overflowed = _judge_loss(case, expectation, outcome.loss)
    gradient = _judge_gradient(case, expectation, outcome.gradient)
    faults = [fault for fault in (loss_fault, gradient.fault) if fault]
    if faults:
        return Judgement(Verdict.DIVERGES, loss, gradient.divergence, gradient.at, "; ".join(faults))
    if loss_overflowed or gradient.overflowed:
        message = _overflow_words(case, expectation, loss_overflowed, gradient)
        return Judgement(Verdict.OVERFLOW, loss, gradient.divergence, gradient.at, message)
    return Judgement(Verdict.CONFORMS, loss, gradient.divergence, gradient.at)


def agree(expectation: Expectation, first: Outcome, second: Outcome) -> bool:
    """Whether two answers to the same case are as near to each other as rounding in any order allows.

    Where rounding can decide that the value jumps, nothing is said: the two may have decided otherwise.
    """
    if expectation.others and first.status == second.status:
        return True
    if first.status != second.status:
        return False
    if first.loss is None or second.loss is None or first.gradient is None or second.gradient is None:
        return True
    if not _near(first.loss, second.loss, expectation.loss.bound, expectation.loss_overflows):
        return False
    # An undecided element may take another outcome the second time.
    values = np.array([exact.high for exact in expectation.gradients])
    with np.errstate(invalid="ignore"):
        # Infinite less infinite, beyond float64, is no distance: such elements are excused below.
        ends = [np.nan_to_num(values.max(axis=0) - values.min(axis=0))]
        if expectation.hull is not None:
            ends.append(np.nan_to_num(expectation.hull[1] - expectation.hull[0]))
    bound = np.max([exact.bound for exact in expectation.gradients], axis=0) + np.max(ends, axis=0) / 2
    return _near(first.gradient, second.gradient, bound, expectation.gradient_overflows)


def bits_equal(first: Outcome, second: Outcome) -> bool | None:
    """Whether two answers are the same bits; None where one of them is no answer."""
    ours, theirs = _bits(first), _bits(second)
    return None if ours is None or theirs is None else ours == theirs


def _bits(outcome: Outcome) -> bytes | None:
    if outcome.loss is None or outcome.gradient is None:
        return None
    numbers = np.append(outcome.gradient, outcome.loss)
    # One NaN is as good as another, and so is one zero.
    return np.where(np.isnan(numbers), np.nan, numbers + 0.0).tobytes()


def _near(
    first: FloatArray | float,
    second: FloatArray | float,
    bound: FloatArray,
    overflows: bool | npt.NDArray[np.bool_],
) -> bool:
    first, second = np.asarray(first), np.asarray(second)
    with np.errstate(invalid="ignore"):
        apart = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return bool(np.all(same | (apart <= REPEAT_FACTOR * bound) | overflows))


def _judge_loss(case: Case, expectation: Expectation, answer: float) -> tuple[Divergence, str, bool]:
    """Divergence of the loss, the fault in words or "", and whether it overflowed excusably."""
    exact = expectation.loss
    wanted, bound = float(exact.high[0]), float(exact.bound[0])
    if not math.isfinite(answer):
        if expectation.loss_overflows:
            return NOT_COMPARED, "", True
        return _infinite(), f"loss is {answer} where the formula gives {_number(wanted)}", False
    error = float(exact.error(np.array([answer]))[0])
    ratio = float(_ratio(np.array([error]), exact.bound)[0])
    divergence = _divergence(case, error, ratio, wanted)
    if ratio <= 1.0:
        return divergence, "", False
    got, told = _told_apart(answer, wanted)
    return divergence, f"loss is {got}, the formula gives {told} within {bound:.2g}", False


@dataclass(frozen=True)
class _Gradient:
    divergence: Divergence
    at: tuple[int, int] | None
    fault: str
    overflowed: bool
    not_finite_where_finite: bool = False


def _judge_gradient(case: Case, expectation: Expectation, answer: FloatArray) -> _Gradient:
    mask = case.batch.mask
    error, ratio, nearest = _against_outcomes(expectation, answer)
    finite = np.isfinite(answer)
    overflowed = formula_finite = False
    excused = None
    if not finite.all():
        excused = _excused(case, expectation)
        ratio = np.where(finite, ratio, np.where(excused, 0.0, np.inf))
        overflowed = bool((~finite & excused).any())
        held = np.abs(expectation.gradients[0].high) <= case.batch.dtype.largest
        formula_finite = bool((~finite & excused & held).any())
    compared = np.where(np.isnan(ratio), 0.0, ratio)
    row, column = divmod(int(compared.argmax()), compared.shape[1])
    at = row, column
    exact = expectation.gradients[int(nearest[at])]
    if excused is not None and not finite[at]:
        divergence = NOT_COMPARED if excused[at] else _infinite()
    else:
        divergence = _divergence(case, float(error[at]), float(ratio[at]), float(exact.high[at]))
    if ratio[at] <= 1.0:
        return _Gradient(divergence, (row, column), "", overflowed, formula_finite)
    where = f"completion {row}, token {column}"
    if not mask[at]:
        fault = f"gradient at a masked position ({where}) is {_number(answer[at])}, not 0"
    elif not finite[at]:
        fault = f"gradient is {answer[at]} at {where}, where the formula gives {_number(exact.high[at])}"
    else:
        got, wanted = _told_apart(float(answer[at]), float(exact.high[at]))
        fault = f"gradient is {got} at {where}, the formula gives {wanted} within {exact.bound[at]:.2g}"
    others = int((compared > 1.0).sum()) - 1
    if others:
        fault += f" (and {others} more element{'s' if others > 1 else ''})"
    return _Gradient(divergence, (row, column), fault, overflowed, formula_finite)


def _excused(case: Case, expectation: Expectation) -> npt.NDArray[np.bool_]:
    """Elements that need not be finite: those whose own intermediate overflows; at sequence level the row."""
    overflows = expectation.gradient_overflows
    if case.spec.importance_sampling_level is Level.SEQUENCE:
        return np.broadcast_to(overflows.any(axis=1, keepdims=True), overflows.shape)
    return overflows


def _against_outcomes(
    expectation: Expectation, answer: FloatArray
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """Error, error / bound and index of the nearest outcome, elementwise."""
    error = expectation.gradients[0].error(answer)
    ratio = _ratio(error, expectation.gradients[0].bound)
    nearest = np.zeros(ratio.shape, dtype=np.int64)
    first = expectation.gradients[0]
    for number, exact in enumerate(expectation.gradients[1:], start=1):
        # Few elements have a decision in doubt.
        at = ((exact.high != first.high) | (exact.bound != first.bound) | (exact.low != first.low)).nonzero()
        own = Exact(exact.high[at], exact.low[at], exact.bound[at]).error(answer[at])
        its, known = _ratio(own, exact.bound[at]), ratio[at]
        better = (its < known) | (np.isnan(known) & ~np.isnan(its))
        if better.any():
            error[at], ratio[at] = np.where(better, own, error[at]), np.where(better, its, known)
            nearest[at] = np.where(better, number, nearest[at])
    if expectation.hull is not None:
        least, greatest = expectation.hull
        bound = np.max([exact.bound for exact in expectation.gradients], axis=0)
        outside = np.maximum(np.maximum(least - answer, answer - greatest), 0.0)
        # The hull's ends are rounded to float64.
        in_hull = _ratio(outside, bound + np.spacing(np.maximum(np.abs(least), np.abs(greatest))))
        better = np.isfinite(least) & (in_hull < ratio)
        error, ratio = np.where(better, outside, error), np.where(better, in_hull, ratio)
    return error, ratio, nearest


def _ratio(error: FloatArray, bound: FloatArray) -> FloatArray:
    """error / bound; 0 where the error is 0, infinite where only the bound is."""
    ratio: FloatArray = error / bound
    unclear = np.isnan(ratio)
    if unclear.any():
        ratio = np.where(unclear & ((error == 0.0) | np.isinf(bound)), 0.0, ratio)
    return ratio


def _divergence(case: Case, error: float, ratio: float, exact: float) -> Divergence:
    ulp = case.batch.dtype.spacing(exact) if math.isfinite(exact) else math.inf
    return Divergence(error, error / ulp, ratio)


def _infinite() -> Divergence:
    return Divergence(np.inf, np.inf, np.inf)


def _number(value: float) -> str:
    return f"{float(value):.9g}"


def _told_apart(got: float, wanted: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see that they differ."""
    for digits in (9, 13, 17):
        texts = f"{got:.{digits}g}", f"{wanted:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _overflow_words(case: Case, expectation: Expectation, loss_overflowed: bool, gradient: _Gradient) -> str:
    loss_held = abs(float(expectation.loss.high[0])) <= case.batch.dtype.largest
    finite: list[str] = []
    infinite: list[str] = []
    if loss_overflowed:
        (finite if loss_held else infinite).append("loss")
    if gradient.overflowed:
        (finite if gradient.not_finite_where_finite else infinite).append("gradient")
    words = []
    if finite:
        words.append(f"{' and '.join(finite)} NaN or infinite where the formula is finite")
    if infinite:
        words.append(f"{' and '.join(infinite)} not finite, beyond the dtype in the formula too")
    return "; ".join(words)
