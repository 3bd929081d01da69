r"""All nine losses with all options and conventions, written down by hand in ball arithmetic over plain loops.

With weights $w$ from the aggregation and the split, weights $w'$ of the KL terms, which are $w$ unless they are
averaged by themselves, and constant factors $c = M \rho$ (off-policy mask, importance ratio),

$$\mathcal L = \sum_{it} w_{it} c_{it} L_{it} + \beta \sum_{it} w'_{it} K_{it}.$$

Every policy term is known by its value and by its derivatives by the log-probabilities of its completion:

* with a ratio $r_{iv}$: $\partial L_{iv} / \partial\ell_{it} = D_{iv} \, \partial\ln r_{iv} / \partial\ell_{it}$,
  where $D = r \, \partial L / \partial r$ (`closed_forms_policy`) and the second factor is 1 for a token's own
  ratio, $\frac{1}{n_i}$ for every token of a shared one, and 0 where the log-ratio is beyond its bounds;
* CISPO and VESPO: $L = -q A \ell$ with detached $q$, whose derivative is $-q A$;
* GMPO: $L_{iv} = -\rho_i A_{iv}$ with $\ln \rho_i = \frac{1}{n_i} \sum_t \tilde\delta_{it}$, whose derivative is
  $-\rho_i A_{iv} / n_i$ where token t is not clipped.

$K$ is in `closed_forms_kl`. Nothing here comes from `oracles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from closed_forms import BITS, ClosedForm, Sum, added
from closed_forms_kl import estimate
from closed_forms_policy import DETACHED, detached_weight, slope_by_log_ratio, term
from closed_forms_weights import drops, kl_weights, token_weights
from flint import arb, ctx, fmpq

from cases.batch import Batch
from cases.case import Case
from cases.conventions import SequenceGradient
from cases.spec import Level, LossType

ZERO: Final = arb(0)


@dataclass(frozen=True)
class Token:
    """One unmasked token. `log_ratio` is not clipped, `x` is ref_logps - logps."""

    position: tuple[int, int]
    logp: arb
    log_ratio: arb
    x: arb | None
    advantage: arb
    importance: float | None


@dataclass(frozen=True)
class Ratio:
    """The ratio of a token, and the derivatives of its logarithm by the log-probabilities of the completion."""

    value: arb
    slopes: tuple[arb, ...]


def closed_form_with_options(case: Case) -> ClosedForm:
    """Loss of the judged step, and its gradient at every unmasked position of the step."""
    with ctx.workprec(BITS):
        losses: list[arb] = []
        gradient: dict[tuple[int, int], Sum] = {}
        weight, kl_weight = token_weights(case), kl_weights(case)
        for row in weight:
            tokens = _tokens(case.batch, row)
            ratios = _ratios(case, tokens)
            w, beta = _ball(weight[row]), arb(case.spec.beta) * _ball(kl_weight[row])
            parts: list[list[arb]] = [[] for _ in tokens]
            policy = _gmpo(case, tokens) if case.spec.loss_type is LossType.GMPO else _policy(case, tokens, ratios)
            for factor, (loss, slopes) in zip(_factors(case, tokens, row), policy, strict=True):
                losses.append(w * factor * loss)
                for index, slope in enumerate(slopes):
                    parts[index].append(w * factor * slope)
            for number, token in enumerate(tokens):
                if case.spec.beta == 0:
                    continue
                assert token.x is not None
                kl = estimate(case.spec, token.x, ratios[number].value)
                losses += [beta * part for part in kl.parts]
                parts[number] += [beta * part for part in kl.own]
                for index, slope in enumerate(ratios[number].slopes):
                    parts[index].append(beta * slope * kl.by_log_ratio)
            gradient.update((token.position, added(found)) for token, found in zip(tokens, parts, strict=True))
        return ClosedForm(added(losses), gradient)


def _ball(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


def _tokens(batch: Batch, row: int) -> list[Token]:
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
            Token(
                position=(row, column),
                logp=logp,
                log_ratio=ZERO if batch.old_logps is None else logp - arb(float(batch.old_logps[row, column])),
                x=None if batch.ref_logps is None else arb(float(batch.ref_logps[row, column])) - logp,
                advantage=arb(float(advantage)),
                importance=None if importance is None else float(importance),
            )
        )
    return tokens


def _held(case: Case, log_ratio: arb) -> tuple[arb, arb]:
    """The log-ratio within its bounds, and its derivative by the one without: 1, or 0 beyond."""
    low, high = case.spec.conventions.log_ratio_bounds
    if low is not None and log_ratio < low:
        return arb(low), ZERO
    if high is not None and log_ratio > high:
        return arb(high), ZERO
    return log_ratio, arb(1)


def _ratios(case: Case, tokens: list[Token]) -> list[Ratio]:
    count = len(tokens)
    if case.spec.importance_sampling_level is Level.TOKEN:
        held = [_held(case, token.log_ratio) for token in tokens]
    else:
        whole = ZERO
        for token in tokens:
            whole += token.log_ratio
        held = [_held(case, whole / count)] * count
    conventions = case.spec.conventions
    whole_completion = conventions.sequence_gradient is SequenceGradient.COMPLETION
    shared = case.spec.importance_sampling_level is Level.SEQUENCE and whole_completion
    return [
        Ratio(
            log_ratio.exp(),
            tuple(passes / count if shared else passes if index == number else ZERO for index in range(count)),
        )
        for number, (log_ratio, passes) in enumerate(held)
    ]


def _factors(case: Case, tokens: list[Token], row: int) -> list[arb]:
    dropped = drops(case, row)
    factors = []
    for token in tokens:
        inside = token.importance is None or case.spec.loss_type is LossType.VESPO
        factor = arb(1 if inside else token.importance)
        factors.append(ZERO if dropped and token.advantage < 0 else factor)
    return factors


def _policy(case: Case, tokens: list[Token], ratios: list[Ratio]) -> list[tuple[arb, list[arb]]]:
    """L of every token of a completion, with its derivatives by all their log-probabilities."""
    found = []
    for number, (token, ratio) in enumerate(zip(tokens, ratios, strict=True)):
        if case.spec.loss_type in DETACHED:
            completion = [(other.log_ratio, other.importance) for other in tokens]
            q = detached_weight(case.spec, ratio.value, completion, token.advantage)
            own = [-q * token.advantage if index == number else ZERO for index in range(len(tokens))]
            found.append((-q * token.advantage * token.logp, own))
        else:
            slope = slope_by_log_ratio(case.spec, ratio.value, token.advantage)
            found.append((term(case.spec, ratio.value, token.advantage), [slope * part for part in ratio.slopes]))
    return found


def _gmpo(case: Case, tokens: list[Token]) -> list[tuple[arb, list[arb]]]:
    """The same of the geometric mean of the ratios, each clipped on the side that its advantage calls for."""
    low, high = -arb(case.spec.epsilon_low), arb(case.spec.epsilon_high)
    count = len(tokens) + arb(case.spec.conventions.denominator_epsilon)
    whole, passing = ZERO, []
    for token in tokens:
        log_ratio, passes = _held(case, token.log_ratio)
        if token.advantage > 0:
            clipped, bound = bool(log_ratio > high), high
        elif token.advantage < 0:
            clipped, bound = bool(log_ratio < low), low
        else:
            clipped, bound = True, ZERO
        whole += bound if clipped else log_ratio
        passing.append(ZERO if clipped else passes)
    mean = (whole / count).exp()
    return [
        (-mean * token.advantage, [-mean * token.advantage * passes / count for passes in passing])
        for token in tokens
    ]
