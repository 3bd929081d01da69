r"""Losses and gradients written down by hand, in ball arithmetic over plain loops, to hold the oracles against.

With weights $w_{it}$ from the aggregation and $u = \ell - \ell^{ref}$,

$$\mathcal L = \sum_{it} w_{it} \big(L_{it} + \beta (e^{-u} + u - 1)\big).$$

* Clipped surrogate: $L = -A \min(r, 1 + \epsilon_{high})$ for $A > 0$ and $|A| \max(r, 1 - \epsilon_{low})$ for
  $A < 0$, with the slope $D = -A r (\mathbb 1[A > 0, r < 1 + \epsilon_{high}] +
  \mathbb 1[A < 0, r > 1 - \epsilon_{low}])$ by the log-ratio.
* CISPO: $L = -\hat r A \ell$ with the detached $\hat r = \min(r, \epsilon_{high})$, whose derivative is
  $-\hat r A$ at either level.
* Token level: $\partial\mathcal L / \partial\ell_{it} = w_{it} (D_{it} + \beta (1 - e^{-u}))$. Sequence level:
  all tokens of a completion share $s_i$, so the policy part is $\frac{1}{n_i} \sum_v w_{iv} D_{iv}$.

Nothing here comes from `oracles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from flint import arb, ctx, fmpq

from cases.case import Case
from cases.conventions import EmptyRows
from cases.spec import Level, LossType

LOSSES: Final = (LossType.GRPO, LossType.BNPO, LossType.DR_GRPO, LossType.DAPO, LossType.CISPO)
"""The losses written down here."""

BITS: Final = 256


@dataclass(frozen=True)
class Sum:
    """A sum and the size of what was added up, which says how much of it cancelled."""

    value: arb
    size: float


@dataclass(frozen=True)
class ClosedForm:
    """The loss and its gradient at every unmasked position."""

    loss: Sum
    gradient: dict[tuple[int, int], Sum]


@dataclass(frozen=True)
class _Token:
    position: tuple[int, int]
    weight: arb
    logp: arb
    log_ratio: arb
    ref_log_ratio: arb | None
    advantage: arb


def closed_form(case: Case) -> ClosedForm:
    """Loss and gradient of a case."""
    with ctx.workprec(BITS):
        losses: list[arb] = []
        gradient: dict[tuple[int, int], Sum] = {}
        for row in range(case.batch.rows):
            tokens = _tokens(case, row)
            ratios = _ratios(case, tokens)
            policy = [_policy_slopes(case, tokens, ratios, index) for index in range(len(tokens))]
            for token, ratio, slopes in zip(tokens, ratios, policy, strict=True):
                kl, kl_slopes = _kl(case, token)
                losses += [token.weight * part for part in (_policy_loss(case, token, ratio), *kl)]
                gradient[token.position] = added([*slopes, *(token.weight * slope for slope in kl_slopes)])
        return ClosedForm(added(losses), gradient)


def weights(case: Case) -> list[Fraction]:
    """What a token of each completion weighs; 0 where it has none."""
    lengths = [int(length) for length in case.batch.lengths]
    counted = case.spec.conventions.empty_rows is EmptyRows.COUNTED
    rows = len(lengths) if counted else sum(1 for length in lengths if length)
    match case.spec.loss_type:
        case LossType.GRPO:
            return [Fraction(1, rows * length) if length else Fraction(0) for length in lengths]
        case LossType.DR_GRPO:
            horizon = case.spec.max_completion_length
            return [Fraction(1, rows * horizon) if length else Fraction(0) for length in lengths]
        case LossType.BNPO | LossType.DAPO | LossType.CISPO:
            return [Fraction(1, sum(lengths)) if length else Fraction(0) for length in lengths]
        case _:
            raise ValueError(f"{case.spec.loss_type}: takes one of {', '.join(LOSSES)}")


def added(parts: list[arb]) -> Sum:
    """The sum of some parts, with their size."""
    total = arb(0)
    size = 0.0
    for part in parts:
        total += part
        size += abs(float(part))
    return Sum(total, size)


def _tokens(case: Case, row: int) -> list[_Token]:
    batch = case.batch
    weight = weights(case)[row]
    tokens = []
    for column in range(batch.columns):
        if not batch.mask[row, column]:
            continue
        logp = arb(float(batch.logps[row, column]))
        per_token = batch.advantages.ndim == 2
        tokens.append(
            _Token(
                position=(row, column),
                weight=arb(fmpq(weight.numerator, weight.denominator)),
                logp=logp,
                log_ratio=arb(0) if batch.old_logps is None else logp - arb(float(batch.old_logps[row, column])),
                ref_log_ratio=None if batch.ref_logps is None else logp - arb(float(batch.ref_logps[row, column])),
                advantage=arb(float(batch.advantages[row, column] if per_token else batch.advantages[row])),
            )
        )
    return tokens


def _ratios(case: Case, tokens: list[_Token]) -> list[arb]:
    if case.spec.importance_sampling_level is Level.TOKEN:
        return [token.log_ratio.exp() for token in tokens]
    mean = arb(0)
    for token in tokens:
        mean += token.log_ratio / len(tokens)
    return [mean.exp() for _ in tokens]


def _bounds(case: Case) -> tuple[arb, arb]:
    return 1 - arb(case.spec.epsilon_low), 1 + arb(case.spec.epsilon_high)


def _capped(case: Case, ratio: arb) -> arb:
    cap = arb(case.spec.epsilon_high)
    return cap if ratio > cap else ratio


def _policy_loss(case: Case, token: _Token, ratio: arb) -> arb:
    if case.spec.loss_type is LossType.CISPO:
        return -_capped(case, ratio) * token.advantage * token.logp
    low, high = _bounds(case)
    if token.advantage > 0:
        return -token.advantage * (high if ratio > high else ratio)
    return -token.advantage * (low if ratio < low else ratio)


def _active_slope(case: Case, token: _Token, ratio: arb) -> arb:
    """D: the derivative of the clipped surrogate by the log-ratio."""
    low, high = _bounds(case)
    active = (token.advantage > 0 and ratio < high) or (token.advantage < 0 and ratio > low)
    return -token.advantage * ratio if active else arb(0)


def _policy_slopes(case: Case, tokens: list[_Token], ratios: list[arb], index: int) -> list[arb]:
    """What the policy terms add to the derivative by one token's log-probability."""
    token = tokens[index]
    if case.spec.loss_type is LossType.CISPO:
        return [-token.weight * _capped(case, ratios[index]) * token.advantage]
    if case.spec.importance_sampling_level is Level.TOKEN:
        return [token.weight * _active_slope(case, token, ratios[index])]
    return [
        other.weight * _active_slope(case, other, ratio) / len(tokens)
        for other, ratio in zip(tokens, ratios, strict=True)
    ]


def _kl(case: Case, token: _Token) -> tuple[list[arb], list[arb]]:
    """The terms of beta k3 and of its derivative."""
    if case.spec.beta == 0:
        return [], []
    assert token.ref_log_ratio is not None
    beta, u = arb(case.spec.beta), token.ref_log_ratio
    inverse = beta * (-u).exp()
    return [inverse, beta * u, -beta], [beta, -inverse]
