"""The batch as formulas see it: completions of unmasked tokens, and hyper-parameters, all of them scalars.

Padding cannot leak into an oracle because it is not in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from cases.batch import Batch
from cases.case import Case
from cases.spec import EmptyRows, LossSpec
from oracles.contract import Contract
from oracles.scalar import Scalar, Tape, stop_gradient
from oracles.scalar import total as _total


@dataclass(frozen=True)
class Token:
    """One unmasked token. `old_logp` is the detached current one in the on-policy form."""

    logp: Scalar
    old_logp: Scalar
    ref_logp: Scalar | None
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
class Parameters:
    """Hyper-parameters as the dtype rounds them; `beta` is None where the loss has no KL term."""

    spec: LossSpec
    tape: Tape

    @cached_property
    def beta(self) -> Scalar | None:
        return self.tape.number(self.spec.beta) if self.spec.beta > 0 else None

    @cached_property
    def epsilon_high(self) -> Scalar:
        return self.tape.number(self.spec.epsilon_high)

    @cached_property
    def ratio_low(self) -> Scalar:
        """1 - epsilon_low."""
        return 1 - self.tape.number(self.spec.epsilon_low)

    @cached_property
    def ratio_high(self) -> Scalar:
        """1 + epsilon_high."""
        return 1 + self.tape.number(self.spec.epsilon_high)


@dataclass(frozen=True)
class Formula:
    """What a loss is written over: `completions`, `parameters`, and `total` to add up.

    `leaves` maps (row, column) of every unmasked token to the scalar of its log-probability.
    """

    completions: tuple[Completion, ...]
    parameters: Parameters
    tape: Tape
    leaves: dict[tuple[int, int], Scalar]

    @classmethod
    def of(cls, case: Case) -> Formula:
        """The formula's view of a case, on a tape of its own."""
        dtype = case.batch.dtype
        tape = Tape(Contract.of(dtype), lambda value: dtype.holds(value))
        leaves: dict[tuple[int, int], Scalar] = {}
        completions = tuple(
            Completion(tuple(_tokens(case.batch, row, tape, leaves))) for row in range(case.batch.rows)
        )
        return cls(completions, Parameters(case.spec, tape), tape, leaves)

    @property
    def rows(self) -> int:
        """B, as the conventions count it."""
        if self.parameters.spec.conventions.empty_rows is EmptyRows.COUNTED:
            return len(self.completions)
        return sum(1 for completion in self.completions if completion)

    @property
    def non_empty(self) -> tuple[Completion, ...]:
        """The completions that have tokens."""
        return tuple(completion for completion in self.completions if completion)

    @property
    def token_count(self) -> int:
        """N."""
        return sum(len(completion) for completion in self.completions)

    def total(self, terms: Sequence[Scalar]) -> Scalar:
        """The sum of any number of terms, in any order."""
        return _total(terms, self.tape)


def _tokens(batch: Batch, row: int, tape: Tape, leaves: dict[tuple[int, int], Scalar]) -> Iterator[Token]:
    per_row = None if batch.advantages.ndim == 2 else tape.exact(float(batch.advantages[row]))
    for column in batch.mask[row].nonzero()[0].tolist():
        logp = leaves[row, column] = tape.leaf(float(batch.logps[row, column]))
        old, ref = batch.old_logps, batch.ref_logps
        yield Token(
            logp=logp,
            old_logp=stop_gradient(logp) if old is None else tape.exact(float(old[row, column])),
            ref_logp=None if ref is None else tape.exact(float(ref[row, column])),
            advantage=tape.exact(float(batch.advantages[row, column])) if per_row is None else per_row,
        )
