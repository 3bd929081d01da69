r"""All eight losses with all options, written down by hand in ball arithmetic over plain loops.

With weights $w$ from the aggregation and the split, and constant factors $c = M \rho$ (off-policy mask, importance
ratio),

$$\mathcal L = \sum_{it} w_{it} (c_{it} L_{it} + \beta K_{it}).$$

* Two-sided clip: $L = -A r$ with $r$ held below $\min(\delta, 1 + \epsilon_{high})$ for $A > 0$, and between
  $1 - \epsilon_{low}$ and $\max(\delta, 1 + \epsilon_{high})$ for $A < 0$; the slope $D = -A r$ inside.
* SAPO: $L = -\frac{4}{\tau} \sigma(\tau (r - 1)) A$, $D = -A r \, \mathrm{sech}^2(\tau (r - 1) / 2)$.
* CISPO and VESPO: $L = -q A \ell$ with detached $q$, whose derivative is $-q A$ at either level. VESPO has the
  importance ratio inside $q$ and nowhere else.
* Policy part of $g_{it}$: $w_{it} c_{it} D_{it}$ at token level, $\frac{1}{n_i} \sum_v w_{iv} c_{iv} D_{iv}$ at
  sequence level.
* $K = k3 = e^{-u} + u - 1$ with slope $1 - e^{-u}$. Bias-corrected $K = r \, k3$: slope $r u$ at token level; at
  sequence level $w_{it} s_i (1 - e^{-u_{it}}) + \frac{1}{n_i} s_i \sum_v w_{iv} \, k3_{iv}$.

Nothing here comes from `oracles`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from closed_forms import BITS, ClosedForm, Sum, added
from flint import arb, ctx, fmpq

from cases.case import Case
from cases.conventions import EmptyRows, WindowTokens
from cases.spec import KLEstimator, Level, LossType
from cases.split import Mode

DETACHED: Final = (LossType.CISPO, LossType.VESPO)
"""Losses whose ratio passes no gradient."""

LARGEST_LOG: Final = 20
SMALLEST_LOG: Final = math.log(1e-8)


@dataclass(frozen=True)
class _Token:
    position: tuple[int, int]
    logp: arb
    log_ratio: arb
    u: arb | None
    advantage: arb
    importance: float | None


def closed_form_with_options(case: Case) -> ClosedForm:
    """Loss of the judged step, and its gradient at every unmasked position of the step."""
    with ctx.workprec(BITS):
        losses: list[arb] = []
        gradient: dict[tuple[int, int], Sum] = {}
        for row, weight in token_weights(case).items():
            tokens = _tokens(case, row)
            w = arb(fmpq(weight.numerator, weight.denominator))
            r = _ratios(case, tokens)
            factors = _factors(case, tokens, row)
            policy = [_policy(case, tokens, index, r[index]) for index in range(len(tokens))]
            slopes = [w * c * slope for c, (_, slope) in zip(factors, policy, strict=True)]
            losses += [w * c * term for c, (term, _) in zip(factors, policy, strict=True)]
            losses += [w * part for index in range(len(tokens)) for part in _kl(case, tokens[index], r[index])]
            shared = case.spec.importance_sampling_level is Level.SEQUENCE
            for index, token in enumerate(tokens):
                coupled = shared and case.spec.loss_type not in DETACHED
                parts = [slope / len(tokens) for slope in slopes] if coupled else [slopes[index]]
                parts += [w * part for part in _kl_slopes(case, tokens, index, r[index])]
                gradient[token.position] = added(parts)
        return ClosedForm(added(losses), gradient)


def micro_batches(case: Case) -> list[list[int]]:
    """Rows of the micro-batches of the judged step."""
    split, rows = case.split, case.batch.rows
    per_rank = rows // split.ranks
    pieces, judged = split.steps_per_generation, split.accumulation_steps
    if split.mode is Mode.EVAL:
        pieces = judged = 1
    size = per_rank // pieces
    return [
        [rank * per_rank + piece * size + number for number in range(size)]
        for rank in range(split.ranks)
        for piece in range(judged)
    ]


def token_weights(case: Case) -> dict[int, Fraction]:
    """What a token weighs, for every row of the judged step that has tokens."""
    spec, split = case.spec, case.split
    lengths = [int(length) for length in case.batch.lengths]
    pieces = micro_batches(case)
    step = [row for piece in pieces for row in piece]
    filled = [row for row in step if lengths[row]]
    rows = len(step) if spec.conventions.empty_rows is EmptyRows.COUNTED else len(filled)
    tokens = Fraction(sum(lengths[row] for row in step))
    if spec.conventions.window_tokens is WindowTokens.GENERATION_AVERAGE and split.mode is Mode.TRAIN:
        tokens = Fraction(sum(lengths) * split.accumulation_steps, split.steps_per_generation)
    match spec.loss_type:
        case LossType.GRPO | LossType.SAPO:
            return {row: Fraction(1, rows * lengths[row]) for row in filled}
        case LossType.LUSPO:
            return {row: Fraction(1, rows) for row in filled}
        case LossType.DR_GRPO:
            return {row: Fraction(1, rows * spec.max_completion_length) for row in filled}
        case LossType.BNPO:
            return {
                row: Fraction(1, len(pieces) * sum(lengths[other] for other in piece))
                for piece in pieces
                for row in piece
                if lengths[row]
            }
        case LossType.DAPO | LossType.CISPO | LossType.VESPO:
            return dict.fromkeys(filled, 1 / (tokens or Fraction(1)))


def drops(case: Case, row: int) -> bool:
    """Whether a completion has drifted off-policy, decided in rational arithmetic."""
    batch, threshold = case.batch, case.spec.off_policy_mask_threshold
    source = batch.old_logps if batch.sampling_logps is None else batch.sampling_logps
    if threshold is None:
        return False
    drift = Fraction(0)
    columns = [column for column in range(batch.columns) if batch.mask[row, column]]
    for column in columns:
        if source is not None:
            drift += Fraction(float(source[row, column])) - Fraction(float(batch.logps[row, column]))
    return drift / len(columns) > Fraction(threshold)


def _tokens(case: Case, row: int) -> list[_Token]:
    batch = case.batch
    tokens = []
    for column in range(batch.columns):
        if not batch.mask[row, column]:
            continue
        logp = arb(float(batch.logps[row, column]))
        importance = batch.importance_ratio
        if importance is not None:
            importance = importance[row, 0 if importance.shape[1] == 1 else column]
        advantage = batch.advantages[row, column] if batch.advantages.ndim == 2 else batch.advantages[row]
        tokens.append(
            _Token(
                position=(row, column),
                logp=logp,
                log_ratio=arb(0) if batch.old_logps is None else logp - arb(float(batch.old_logps[row, column])),
                u=None if batch.ref_logps is None else logp - arb(float(batch.ref_logps[row, column])),
                advantage=arb(float(advantage)),
                importance=None if importance is None else float(importance),
            )
        )
    return tokens


def _ratios(case: Case, tokens: list[_Token]) -> list[arb]:
    if case.spec.importance_sampling_level is Level.TOKEN:
        return [token.log_ratio.exp() for token in tokens]
    whole = arb(0)
    for token in tokens:
        whole += token.log_ratio
    return [(whole / len(tokens)).exp()] * len(tokens)


def _factors(case: Case, tokens: list[_Token], row: int) -> list[arb]:
    dropped = drops(case, row)
    factors = []
    for token in tokens:
        inside = token.importance is None or case.spec.loss_type is LossType.VESPO
        factor = arb(1 if inside else token.importance)
        factors.append(arb(0) if dropped and token.advantage < 0 else factor)
    return factors


def _policy(case: Case, tokens: list[_Token], index: int, ratio: arb) -> tuple[arb, arb]:
    """L of a token, and D: its derivative by the log-ratio, or by the log-probability if the ratio is detached."""
    spec, token = case.spec, tokens[index]
    advantage = token.advantage
    if spec.loss_type in DETACHED:
        q = _gamma(case, tokens, advantage) if spec.loss_type is LossType.VESPO else ratio
        if spec.loss_type is LossType.CISPO and ratio > spec.epsilon_high:
            q = arb(spec.epsilon_high)
        return -q * advantage * token.logp, -q * advantage
    if spec.loss_type is LossType.SAPO:
        tau = arb(spec.sapo_temperature_pos if advantage > 0 else spec.sapo_temperature_neg)
        half = tau * (ratio - 1) / 2
        return -2 / tau * (1 + half.tanh()) * advantage, -advantage * ratio / half.cosh() ** 2
    if advantage == 0:
        return arb(0), arb(0)
    low, high = 1 - arb(spec.epsilon_low), 1 + arb(spec.epsilon_high)
    if spec.delta is not None:
        narrower, wider = sorted((high, arb(spec.delta)), key=float)
        high = narrower if advantage > 0 else wider
    elif advantage < 0:
        high = arb("+inf")
    if advantage > 0:
        low = arb(0)
    if ratio < low or ratio > high:
        return -advantage * (low if ratio < low else high), arb(0)
    return -advantage * ratio, -advantage * ratio


def _gamma(case: Case, tokens: list[_Token], advantage: arb) -> arb:
    """phi: W^k e^(lambda (1 - W)) of the completion's product of ratios."""
    spec = case.spec
    log_weight = arb(0)
    for token in tokens:
        log_weight += _within(token.log_ratio, -LARGEST_LOG)
        if token.importance is not None:
            log_weight += _within(arb(token.importance).log() if token.importance else arb("-inf"), SMALLEST_LOG)
    weight = _within(log_weight, SMALLEST_LOG).exp()
    if advantage >= 0:
        k, lam = arb(spec.vespo_k_pos), arb(spec.vespo_lambda_pos)
    else:
        k, lam = arb(spec.vespo_k_neg), arb(spec.vespo_lambda_neg)
    return weight**k * (lam * (1 - weight)).exp()


def _within(log: arb, lowest: float) -> arb:
    if log > LARGEST_LOG:
        return arb(LARGEST_LOG)
    return arb(lowest) if log < lowest else log


def _kl(case: Case, token: _Token, ratio: arb) -> list[arb]:
    """The terms of beta K."""
    if case.spec.beta == 0:
        return []
    factor = arb(case.spec.beta)
    if case.spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED:
        factor *= ratio
    return [factor * (-token.u).exp(), factor * token.u, -factor]


def _kl_slopes(case: Case, tokens: list[_Token], index: int, ratio: arb) -> list[arb]:
    """The terms of the derivative of the completion's beta K by one token's log-probability, over its weight."""
    if case.spec.beta == 0:
        return []
    beta, u = arb(case.spec.beta), tokens[index].u
    if case.spec.kl_estimator is KLEstimator.K3:
        return [beta, -beta * (-u).exp()]
    if case.spec.importance_sampling_level is Level.TOKEN:
        return [beta * ratio * u]
    coupled = [part / len(tokens) for token in tokens for part in _kl(case, token, ratio)]
    return [beta * ratio, -beta * ratio * (-u).exp(), *coupled]
