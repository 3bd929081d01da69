"""The batch as formulas see it: completions of unmasked tokens, and hyper-parameters, all of them scalars.

Padding cannot leak into an oracle because it is not in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from cases.batch import Batch
from cases.case import Case
from cases.conventions import Conventions, EmptyRows, WindowTokens
from cases.spec import LossSpec
from cases.split import Mode, Split
from oracles.contract import Contract
from oracles.count import Count
from oracles.operations import stop_gradient
from oracles.operations import total as _total
from oracles.scalar import Scalar
from oracles.tape import Tape


@dataclass(frozen=True)
class Token:
    """One unmasked token. `old_logp` is the detached current one in the on-policy form."""

    logp: Scalar
    old_logp: Scalar
    ref_logp: Scalar | None
    sampling_logp: Scalar | None
    importance_ratio: Scalar | None
    advantage: Scalar


@dataclass(frozen=True)
class Completion:
    """One row: its unmasked tokens, which may be none."""

    tokens: tuple[Token, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tokens)


@dataclass(frozen=True)
class MicroBatch:
    """Completions whose loss is taken in one call."""

    completions: tuple[Completion, ...]

    @property
    def non_empty(self) -> tuple[Completion, ...]:
        """The completions that have tokens."""
        return tuple(completion for completion in self.completions if completion)

    @property
    def token_count(self) -> int:
        """Unmasked tokens of the micro-batch."""
        return sum(len(completion) for completion in self.completions)


@dataclass(frozen=True)
class Parameters:
    """Hyper-parameters as the dtype rounds them; `beta` is None where the loss has no KL term."""

    spec: LossSpec
    tape: Tape

    def number(self, value: float) -> Scalar:
        """A hyper-parameter or constant of the formula."""
        return self.tape.number(value)

    @property
    def conventions(self) -> Conventions:
        """What the papers leave open, as it is settled for this case."""
        return self.spec.conventions

    def around_zero(self, bound: float | None) -> tuple[Scalar, Scalar] | tuple[None, None]:
        """-bound and bound, where there is one."""
        return (None, None) if bound is None else (self.number(-bound), self.number(bound))

    @cached_property
    def log_ratio_bounds(self) -> tuple[Scalar | None, Scalar | None]:
        """What a log-ratio is clipped to before its exponential is taken."""
        low, high = self.conventions.log_ratio_bounds
        return None if low is None else self.number(low), None if high is None else self.number(high)

    @cached_property
    def dual_clip(self) -> Scalar | None:
        """The bound of the ratio where the advantage is below 0, where there is one."""
        bound = self.conventions.dual_clip
        return None if bound is None else self.tape.ratio_bound(self.tape.number(bound))

    @cached_property
    def beta(self) -> Scalar | None:
        return self.tape.number(self.spec.beta) if self.spec.beta > 0 else None

    @cached_property
    def ratio_low(self) -> Scalar:
        """1 - epsilon_low."""
        return self.tape.ratio_bound(1 - self.tape.number(self.spec.epsilon_low))

    @cached_property
    def ratio_high(self) -> Scalar:
        """1 + epsilon_high."""
        return self.tape.ratio_bound(1 + self.tape.number(self.spec.epsilon_high))

    @cached_property
    def ratio_cap(self) -> Scalar:
        """epsilon_high, where it is an absolute cap."""
        return self.tape.ratio_bound(self.tape.number(self.spec.epsilon_high))

    @cached_property
    def delta(self) -> Scalar | None:
        """The second upper bound of the ratio, where there is one."""
        delta = self.spec.delta
        return None if delta is None else self.tape.ratio_bound(self.tape.number(delta))


@dataclass
class Jumps:
    """Decisions that make the value jump. Where rounding can decide either way, `assumed` says which is taken.

    `undecided` counts them; those beyond `assumed` are taken as they are in exact arithmetic.
    """

    assumed: tuple[bool, ...] = ()
    undecided: int = 0

    def exceeds(self, x: Scalar, threshold: Scalar) -> bool:
        """Whether x > threshold; equality does not exceed."""
        gap = float(x.value - threshold.value)
        if abs(gap) > x.radius + threshold.radius:
            return gap > 0
        if x.radius + threshold.radius == 0.0:
            return False
        number, self.undecided = self.undecided, self.undecided + 1
        return self.assumed[number] if number < len(self.assumed) else gap > 0


@dataclass(frozen=True)
class Formula:
    """What a loss is written over: the micro-batches of the judged step, `parameters`, and `total` to add up.

    `leaves` maps (row, column) of every unmasked token of the step to the scalar of its log-probability;
    `generation_tokens` counts the unmasked tokens of the whole generation batch.
    """

    micro_batches: tuple[MicroBatch, ...]
    parameters: Parameters
    tape: Tape
    leaves: dict[tuple[int, int], Scalar]
    split: Split
    generation_tokens: int
    jumps: Jumps = field(default_factory=Jumps)

    @classmethod
    def of(cls, case: Case, assumed: tuple[bool, ...] = (), contract: Contract | None = None) -> Formula:
        """The formula's view of a case, on a tape of its own; the contract is its dtype's where none is given."""
        dtype = case.batch.dtype
        tape = Tape(contract or Contract.of(dtype), lambda value: dtype.holds(value))
        leaves: dict[tuple[int, int], Scalar] = {}
        micro_batches = tuple(
            MicroBatch(tuple(Completion(tuple(_tokens(case.batch, row, tape, leaves))) for row in rows))
            for rank in case.split.judged(case.batch.rows)
            for rows in rank
        )
        parameters = Parameters(case.spec, tape)
        return cls(micro_batches, parameters, tape, leaves, case.split, case.batch.tokens, Jumps(assumed))

    @property
    def non_empty(self) -> tuple[Completion, ...]:
        """The completions of the step that have tokens."""
        return tuple(completion for part in self.micro_batches for completion in part.non_empty)

    @property
    def rows(self) -> Count:
        """B: the completions of the step, as the conventions count them; 1 where there are none."""
        if self.parameters.conventions.empty_rows is EmptyRows.NOT_COUNTED:
            return Count.of(max(len(self.non_empty), 1))
        return Count.of(len(self.micro_batches[0].completions)).times(*self._pieces)

    @property
    def pieces(self) -> Count:
        """The micro-batches of the step."""
        return Count.of(*self._pieces)

    @property
    def _pieces(self) -> tuple[int, int]:
        return len(self.micro_batches) // self.split.ranks, self.split.ranks

    @property
    def step_tokens(self) -> Count:
        """The unmasked tokens of the step; 1 where there are none."""
        return self._on_ranks(Fraction(max(sum(part.token_count for part in self.micro_batches), 1)))

    @property
    def window_tokens(self) -> Count:
        """N: the unmasked tokens of the step, as the conventions count them; 1 where there are none."""
        split = self.split
        exact = self.parameters.conventions.window_tokens is WindowTokens.EXACT
        if exact or split.is_whole or split.mode is Mode.EVAL:
            return self.step_tokens
        return self._on_ranks(max(self.generation_tokens, 1) * self._share)

    @property
    def _share(self) -> Fraction:
        return Fraction(self.split.accumulation_steps, self.split.steps_per_generation)

    def _on_ranks(self, tokens: Fraction) -> Count:
        if self.split.is_whole:
            return Count.of(tokens)
        # The tokens are counted on ranks, and the mean over ranks undoes that; a share of them may be taken.
        apart = Count.of(self.split.ranks, self.split.ranks, self._share)
        return Count(tokens, 1 + apart.roundings, 1 + apart.steps)

    def divisor(self, tokens: int | Count) -> Count:
        """What a sum over so many tokens is divided by, as the conventions have it."""
        count = tokens if isinstance(tokens, Count) else Count.of(tokens)
        epsilon = self.parameters.conventions.denominator_epsilon
        if epsilon == 0.0:
            return count
        # The sum of the two is rounded.
        return Count(count.value + Fraction(epsilon), count.roundings + 1, count.steps + 1)

    def total(self, terms: Sequence[Scalar]) -> Scalar:
        """The sum of any number of terms, in any order."""
        return _total(terms, self.tape)


def _tokens(batch: Batch, row: int, tape: Tape, leaves: dict[tuple[int, int], Scalar]) -> Iterator[Token]:
    per_row = None if batch.advantages.ndim == 2 else tape.exact(float(batch.advantages[row]))
    importance = batch.token_importance_ratio
    for column in batch.mask[row].nonzero()[0].tolist():
        logp = leaves[row, column] = tape.leaf(float(batch.logps[row, column]))
        old, ref, sampling = batch.old_logps, batch.ref_logps, batch.sampling_logps
        yield Token(
            logp=logp,
            old_logp=stop_gradient(logp) if old is None else tape.exact(float(old[row, column])),
            ref_logp=None if ref is None else tape.exact(float(ref[row, column])),
            sampling_logp=None if sampling is None else tape.exact(float(sampling[row, column])),
            importance_ratio=None if importance is None else tape.exact(float(importance[row, column])),
            advantage=tape.exact(float(batch.advantages[row, column])) if per_row is None else per_row,
        )
