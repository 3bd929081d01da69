"""Slips in the importance ratio."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cases.case import Case
from cases.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType
from cases.spec import Level, LossType
from oracles.completions import Completion, Formula, Token
from oracles.operations import exp, stop_gradient
from oracles.ratios import ratios
from oracles.scalar import Scalar
from oracles.slips.steps import Change, Ratio, Slip, Steps

_LN2 = math.log(2.0)


def _has_ratio(case: Case) -> bool:
    return case.spec.loss_type not in (LossType.VESPO, LossType.GMPO)


def _at_sequence_level(case: Case) -> bool:
    return _has_ratio(case) and case.spec.importance_sampling_level is Level.SEQUENCE


def _on_policy(case: Case) -> bool:
    return _has_ratio(case) and case.batch.old_logps is None


def _weighs(case: Case) -> bool:
    return _has_ratio(case) and case.batch.importance_ratio is not None


def _of_log(made: Callable[[Scalar, Formula], Scalar]) -> Ratio:
    """The ratio made otherwise from the log-ratio of a token, or of a completion."""

    def ratio(completion: Completion, formula: Formula) -> list[Scalar]:
        logs = [token.logp - token.old_logp for token in completion]
        if formula.parameters.spec.importance_sampling_level is Level.SEQUENCE:
            logs = [formula.total(logs) / len(completion)] * len(completion)
        known: dict[int, Scalar] = {}
        return [known.setdefault(id(log), made(log, formula)) for log in logs]

    return ratio


def _shifted(scalar: Scalar, to: float) -> Scalar:
    """The scalar at another value, with its gradient."""
    return scalar + scalar.tape.exact(to - scalar.mid)


def _in_lower_precision(dtype: DType) -> Iterator[Slip]:
    def rounded(scalar: Scalar) -> Scalar:
        return _shifted(scalar, float(dtype.round(np.array([scalar.mid]))[0]))

    def concerns(case: Case) -> bool:
        return _has_ratio(case) and dtype.unit_roundoff > case.batch.dtype.unit_roundoff

    yield Slip(f"log-ratio rounded to {dtype.name}", _ratio(_of_log(lambda log, _f: exp(rounded(log)))), concerns)
    yield Slip(f"ratio rounded to {dtype.name}", _ratio(_of_log(lambda log, _f: rounded(exp(log)))), concerns)
    yield Slip(
        f"ratio computed in {dtype.name}",
        _ratio(_of_log(lambda log, _f: rounded(exp(rounded(log))))),
        concerns,
    )


def _over_columns(steps: Steps, case: Case) -> Steps:
    def ratio(completion: Completion, formula: Formula) -> list[Scalar]:
        total = formula.total([token.logp - token.old_logp for token in completion])
        return [exp(total / case.batch.columns)] * len(completion)

    return replace(steps, ratio=ratio)


def _not_summed(completion: Completion, _formula: Formula) -> list[Scalar]:
    return [exp((token.logp - token.old_logp) / len(completion)) for token in completion]


def _arithmetic(completion: Completion, formula: Formula) -> list[Scalar]:
    own = [exp(token.logp - token.old_logp) for token in completion]
    return [formula.total(own) / len(completion)] * len(completion)


def _detached_on_policy(completion: Completion, formula: Formula) -> list[Scalar]:
    return [stop_gradient(ratio) for ratio in ratios(completion, formula)]


def _with_importance(completion: Completion, formula: Formula) -> list[Scalar]:
    return [
        ratio if token.importance_ratio is None else ratio * token.importance_ratio
        for ratio, token in zip(ratios(completion, formula), completion, strict=True)
    ]


def _importance_alone(completion: Completion, formula: Formula) -> list[Scalar]:
    return [
        ratio if token.importance_ratio is None else token.importance_ratio
        for ratio, token in zip(ratios(completion, formula), completion, strict=True)
    ]


def _unweighted(_token: Token) -> None:
    """The importance ratio is elsewhere."""


def _ratio(ratio: Ratio) -> Change:
    return lambda steps, _case: replace(steps, ratio=ratio)


def _ratio_unweighted(ratio: Ratio) -> Change:
    return lambda steps, _case: replace(steps, ratio=ratio, weight=_unweighted)


def _weight(made: Callable[[Scalar], Scalar]) -> Change:
    def weight(token: Token) -> Scalar | None:
        return None if token.importance_ratio is None else made(token.importance_ratio)

    return lambda steps, _case: replace(steps, weight=weight)


def _constant(scalar: Scalar, value: float) -> Scalar:
    return scalar.tape.number(value)


SLIPS: Sequence[Slip] = (
    Slip(
        "ratio is 2 to the log-ratio, not e to it",
        _ratio(_of_log(lambda log, f: exp(log * f.parameters.number(_LN2)))),
        _has_ratio,
    ),
    Slip("ratio is 1 + log-ratio, without an exponential", _ratio(_of_log(lambda log, _f: 1 + log)), _has_ratio),
    Slip("log-ratio in the place of the ratio", _ratio(_of_log(lambda log, _f: log)), _has_ratio),
    *(slip for dtype in (BFLOAT16, FLOAT16, FLOAT32) for slip in _in_lower_precision(dtype)),
    Slip("ratio squared", _ratio(_of_log(lambda log, _f: exp(log + log))), _has_ratio),
    Slip("square root of the ratio", _ratio(_of_log(lambda log, _f: exp(log / 2))), _has_ratio),
    Slip(
        "the completion's log-ratio is divided by T, masked positions counted",
        _over_columns,
        _at_sequence_level,
    ),
    Slip(
        "the completion's ratio is the arithmetic mean of its tokens', not the geometric mean",
        _ratio(_arithmetic),
        _at_sequence_level,
    ),
    Slip(
        "log-ratio of each token divided by the length, not summed: one ratio a token, not a completion",
        _ratio(_not_summed),
        _at_sequence_level,
    ),
    Slip("no gradient through the ratio where there are no old_logps", _ratio(_detached_on_policy), _on_policy),
    Slip(
        "importance ratio multiplied into the ratio before the clip", _ratio_unweighted(_with_importance), _weighs
    ),
    Slip("importance ratio in the place of the ratio", _ratio_unweighted(_importance_alone), _weighs),
    Slip("importance ratio squared", _weight(lambda rho: rho * rho), _weighs),
    Slip(
        "one over the importance ratio",
        _weight(lambda rho: _constant(rho, 1 / rho.mid if rho.mid else 0.0)),
        _weighs,
    ),
    Slip(
        "tokens with an importance ratio above 2 dropped",
        _weight(lambda rho: rho if rho.mid <= 2 else _constant(rho, 0.0)),
        _weighs,
    ),
)
