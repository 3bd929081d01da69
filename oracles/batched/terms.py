"""The pieces that losses share, over arrays: the ratio, the KL term, the clipped surrogate, the loss of a token.

The formulas and their sources are those of `oracles.ratios`, `oracles.kl` and `oracles.terms`.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

import numpy as np

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

    `spec` has what the cases of a piece share: which terms there are. What numbers they have is `parameter`.
    `assumed` says how the decisions that make the value jump are taken where rounding can decide either way, in
    the order of their completions; `undecided_jumps` counts them by case.
    """

    def __init__(self, piece: Piece, tape: Tape, assumed: tuple[bool, ...]) -> None:
        first = piece.cases[0]
        self.spec, self.conventions = first.spec, first.spec.conventions
        self.piece, self.tape, self.runs = piece, tape, piece.runs
        self._batch = first.batch
        self._assumed = assumed
        self.undecided_jumps = [0] * len(piece.cases)
        self.logp = tape.leaf(piece.tokens("logps"))
        self.signs: FloatArray = piece.tokens("advantages")
        self.advantage = tape.exact(self.signs)

    def parameter(self, name: str) -> Array:
        """A hyper-parameter, one number a token where cases differ in it."""
        return self.tape.numbers(self.piece.numbers(name), self.piece.case_tokens)

    @cached_property
    def old_logp(self) -> Array:
        """The detached current log-probability in the on-policy form."""
        return stop_gradient(self.logp) if self._batch.old_logps is None else self._exact("old_logps")

    @cached_property
    def importance(self) -> Array | None:
        return None if self._batch.importance_ratio is None else self._exact("importance_ratio")

    def _exact(self, name: str) -> Array:
        return self.tape.exact(self.piece.tokens(name))

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
        return bound_of_ratio(1 - self.parameter("epsilon_low"))

    @cached_property
    def ratio_high(self) -> Array:
        return bound_of_ratio(1 + self.parameter("epsilon_high"))

    def clipped_surrogate(self, ratio: Array) -> Array:
        spec, advantage = self.spec, self.advantage
        first = ratio
        if spec.delta is not None:
            first = minimum(ratio, bound_of_ratio(self.parameter("delta")))
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
        polynomial = spec.kl_estimator in (KLEstimator.K1, KLEstimator.K2)
        acts = not polynomial or conventions.kl_bounded is KLBounded.EVERY
        x = self._exact("ref_logps") - self.logp
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
        return policy + self.parameter("beta") * self.kl(ratio)

    def _keeps(self) -> Flags | None:
        """The off-policy sequence mask: which tokens keep their policy term; None for all."""
        droppable = self.signs < 0
        if self.spec.off_policy_mask_threshold is None or not droppable.any():
            return None
        sampled = self.old_logp if self._batch.sampling_logps is None else self._exact("sampling_logps")
        evidence = sampled - stop_gradient(self.logp)
        thresholds = self.piece.numbers("off_policy_mask_threshold")
        drift, limit = over(total([evidence]), self.lengths), self.tape.numbers(thresholds, self.piece.owners)
        gap = self.tape.arithmetic.gap(drift.value, limit.value)
        drifted = gap > 0.0
        slack = (drift.radius + limit.radius) * GRACE
        asked = np.logical_or.reduceat(droppable, self.runs.starts)
        for row in np.flatnonzero(asked & (abs(gap) <= slack) & (slack > 0.0)).tolist():
            case = int(np.searchsorted(self.piece.owners.starts, row, side="right")) - 1
            before = self.undecided_jumps[case]
            if before < len(self._assumed):
                drifted[row] = self._assumed[before]
            else:
                drifted[row] = self._exceeds(row, sampled, thresholds[case])
            self.undecided_jumps[case] += 1
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
