"""The pieces that losses share, over arrays: the ratio, the KL term, the clipped surrogate, the loss of a token.

The formulas and their sources are those of `oracles.ratios`, `oracles.kl` and `oracles.terms`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

from cases.case import Case
from cases.conventions import KLAggregation, KLBounded, SequenceGradient
from cases.dtypes import FloatArray
from cases.spec import KLEstimator, Level
from oracles.batched.array import Array
from oracles.batched.choices import GRACE, clip, kept, minimum
from oracles.batched.divisor import Divisor, by_count, by_tokens
from oracles.batched.edge import Flags
from oracles.batched.layout import Piece
from oracles.batched.operations import bound_of_ratio, exp, stop_gradient, stored
from oracles.batched.quotient import over
from oracles.batched.sums import gathered, total
from oracles.batched.tape import Tape
from oracles.count import Count


class Terms:
    """The unmasked tokens of a piece, its hyper-parameters as the dtype rounds them, and what is made of both.

    `assumed` says how the decisions that make the value jump are taken where rounding can decide either way, in
    the order of their completions; `undecided_jumps` counts them.
    """

    def __init__(self, case: Case, piece: Piece, tape: Tape, assumed: tuple[bool, ...]) -> None:
        batch = case.batch
        self.spec, self.conventions = case.spec, case.spec.conventions
        self.piece, self.tape, self.runs = piece, tape, piece.runs
        self._assumed = assumed
        self.undecided_jumps = 0
        self.logp = tape.leaf(piece.tokens(batch.logps))
        self.signs: FloatArray = piece.tokens(batch.advantages)
        self.advantage = tape.exact(self.signs)
        self._old, self._ref, self._sampling = batch.old_logps, batch.ref_logps, batch.sampling_logps
        self._importance = batch.importance_ratio

    @cached_property
    def old_logp(self) -> Array:
        """The detached current log-probability in the on-policy form."""
        return stop_gradient(self.logp) if self._old is None else self.tape.exact(self.piece.tokens(self._old))

    @cached_property
    def importance(self) -> Array | None:
        return None if self._importance is None else self.tape.exact(self.piece.tokens(self._importance))

    @cached_property
    def lengths(self) -> Divisor:
        """The tokens of each completion, as a mean of log-ratios is divided by them."""
        return self._by_tokens(0.0)

    @cached_property
    def divisor_lengths(self) -> Divisor:
        """The same, with what the conventions add where token losses are averaged."""
        return self._by_tokens(self.conventions.denominator_epsilon)

    def _by_tokens(self, epsilon: float) -> Divisor:
        tape = self.tape
        return by_tokens(self.runs.lengths, epsilon, tape.dtype, tape.contract)

    def divided(self, x: Array, number: int) -> Array:
        tape = self.tape
        return over(x, by_count(Count.of(number), tape.dtype, tape.contract))

    def bounded(self, x: Array, bound: float | None) -> Array:
        """x between -bound and bound, where there is one."""
        return x if bound is None else clip(x, self.tape.number(-bound), self.tape.number(bound))

    def log_ratio(self) -> Array:
        return self.logp - self.old_logp

    def clipped_log(self, x: Array) -> Array:
        """A log-ratio within the bounds that the conventions set it."""
        low, high = self.conventions.log_ratio_bounds
        number = self.tape.number
        return clip(x, None if low is None else number(low), None if high is None else number(high))

    def ratios(self) -> Array:
        """The importance ratio of every token."""
        log_ratios = self.log_ratio()
        if self.spec.importance_sampling_level is Level.TOKEN:
            return exp(self.clipped_log(log_ratios))
        mean = over(total([log_ratios]), self.lengths)
        if self.conventions.sequence_gradient is SequenceGradient.COMPLETION:
            return gathered(exp(self.clipped_log(mean)))
        own = self.logp - stop_gradient(self.logp) + gathered(stop_gradient(mean))
        return exp(self.clipped_log(own))

    @cached_property
    def ratio_low(self) -> Array:
        return bound_of_ratio(1 - self.tape.number(self.spec.epsilon_low))

    @cached_property
    def ratio_high(self) -> Array:
        return bound_of_ratio(1 + self.tape.number(self.spec.epsilon_high))

    def clipped_surrogate(self, ratio: Array) -> Array:
        spec, advantage = self.spec, self.advantage
        first = ratio
        if spec.delta is not None:
            first = minimum(ratio, bound_of_ratio(self.tape.number(spec.delta)))
        second = clip(ratio, self.ratio_low, self.ratio_high)
        same = _repeats(first, ratio) & _repeats(second, ratio)
        nothing = advantage.zeros()
        if nothing is not None:
            same = same | nothing
        if same.all() and same.ndim == 0:
            surrogate = first * advantage
        else:
            surrogate = minimum(first * advantage, second * advantage, np.broadcast_to(same, self.signs.shape))
            if surrogate.doubt is not None:
                surrogate.repeated = (second, first)
        dual = self.conventions.dual_clip
        if dual is None or not (self.signs < 0).any():
            return surrogate
        floor = bound_of_ratio(self.tape.number(dual)) * advantage
        return -minimum(-surrogate, -floor, self.signs >= 0)

    def kl(self, ratio: Array) -> Array:
        """The KL term of every token."""
        spec, conventions = self.spec, self.conventions
        assert self._ref is not None
        polynomial = spec.kl_estimator in (KLEstimator.K1, KLEstimator.K2)
        acts = not polynomial or conventions.kl_bounded is KLBounded.EVERY
        x = self.tape.exact(self.piece.tokens(self._ref)) - self.logp
        x = self.bounded(x, conventions.kl_log_ratio_bound if acts else None)
        match spec.kl_estimator:
            case KLEstimator.K1:
                estimate = -x
            case KLEstimator.K2:
                estimate = self.divided(x * x, 2)
            case KLEstimator.K3 | KLEstimator.K3_BIAS_CORRECTED:
                estimate = exp(x) - x - 1
        estimate = stored(estimate)
        if spec.kl_estimator is KLEstimator.K3_BIAS_CORRECTED:
            estimate = estimate * ratio
        return self.bounded(estimate, conventions.kl_bound if acts else None)

    @property
    def kl_with_policy(self) -> bool:
        """Whether the KL term is part of the loss of a token."""
        return self.spec.beta > 0 and self.conventions.kl_aggregation is KLAggregation.WITH_POLICY

    @property
    def kl_by_itself(self) -> bool:
        """Whether KL terms are averaged by themselves."""
        return self.spec.beta > 0 and self.conventions.kl_aggregation is KLAggregation.TOKEN_MEAN

    def token_losses(self, policy: Array, ratio: Array, weighs_ratio: bool = True) -> Array:
        """The loss of every token: its policy term, weighted and masked, and its KL term."""
        if weighs_ratio and self.importance is not None:
            policy = policy * self.importance
        keeps = self._keeps()
        if keeps is not None:
            policy = kept(policy, keeps)
        if not self.kl_with_policy:
            return policy
        return policy + self.tape.number(self.spec.beta) * self.kl(ratio)

    def _keeps(self) -> Flags | None:
        """The off-policy sequence mask: which tokens keep their policy term; None for all."""
        threshold = self.spec.off_policy_mask_threshold
        droppable = self.signs < 0
        if threshold is None or not droppable.any():
            return None
        sampled = self.old_logp if self._sampling is None else self.tape.exact(self.piece.tokens(self._sampling))
        evidence = sampled - stop_gradient(self.logp)
        drift, limit = over(total([evidence]), self.lengths), self.tape.number(threshold)
        gap = self.tape.arithmetic.gap(drift.value, limit.value)
        drifted = gap > 0.0
        slack = (drift.radius + limit.radius) * GRACE
        asked = np.logical_or.reduceat(droppable, self.runs.starts)
        for row in np.flatnonzero(asked & (abs(gap) <= slack) & (slack > 0.0)).tolist():
            if self.undecided_jumps < len(self._assumed):
                drifted[row] = self._assumed[self.undecided_jumps]
            else:
                drifted[row] = self._exceeds(row, sampled, threshold)
            self.undecided_jumps += 1
        keeps: Flags = ~(droppable & np.repeat(drifted, self.runs.lengths))
        return keeps

    def _exceeds(self, row: int, sampled: Array, threshold: float) -> bool:
        """Whether a completion's drift exceeds the threshold in exact arithmetic."""
        start = int(self.runs.starts[row])
        own = slice(start, start + int(self.runs.lengths[row]))
        pairs = zip(np.asarray(sampled.mid)[own].tolist(), np.asarray(self.logp.mid)[own].tolist(), strict=True)
        drift = sum(Fraction(there) - Fraction(here) for there, here in pairs)
        return drift > Fraction(threshold) * int(self.runs.lengths[row])


def _repeats(x: Array, of: Array) -> Flags:
    """Where x is the very operand it was made of."""
    if x is of:
        return np.asarray(True)
    assert x.open is not None
    return x.open
