"""Where the unmasked tokens of cases lie: one flat axis of tokens, cut into completions, these into cases.

Padding cannot leak into an oracle because it is not in here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cases.case import Case
from cases.dtypes import FloatArray
from oracles.batched.arithmetic import Starts

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.intp]

PIECE: Final = 8192
"""Tokens that are evaluated at once: as many as leave intermediate arrays in a core's cache."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Consecutive runs of elements, none of them empty: the tokens of completions, say."""

    lengths: Integers

    @cached_property
    def starts(self) -> Starts:
        """Where each run begins."""
        starts: Starts = np.cumsum(self.lengths) - self.lengths
        return starts

    @cached_property
    def size(self) -> int:
        """Elements of all runs."""
        return int(np.add.reduce(self.lengths))

    @classmethod
    def single(cls, size: int) -> Runs:
        """One run."""
        return cls(np.array([size]))

    @classmethod
    def alone(cls, number: int) -> Runs:
        """So many runs of one element."""
        return cls(np.ones(number, dtype=np.intp))

    def spread(self, values: FloatArray | float) -> FloatArray | float:
        """One value a run as one an element."""
        return values if isinstance(values, float) or values.ndim == 0 else values.repeat(self.lengths)

    def full(self, values: FloatArray | float) -> FloatArray:
        """One value an element, where it may be a single number."""
        array = np.asarray(values, dtype=np.float64)
        return array if array.ndim else np.full(self.size, float(array))

    def sums(self, values: FloatArray | float) -> FloatArray:
        """The sum of each run, in float64."""
        sums: FloatArray = np.add.reduceat(self.full(values), self.starts)
        return sums

    def greatest(self, values: FloatArray | float) -> FloatArray | float:
        """The greatest element of each run."""
        if isinstance(values, float) or values.ndim == 0:
            return values
        greatest: FloatArray = np.maximum.reduceat(values, self.starts)
        return greatest

    def any(self, flags: Flags) -> Flags:
        """Whether any element of each run is marked."""
        if flags.ndim == 0:
            return np.broadcast_to(flags, self.lengths.shape)
        marked: Flags = np.logical_or.reduceat(flags, self.starts)
        return marked


@dataclass(frozen=True, eq=False)
class Piece:
    """Some completions with all their tokens: those of a few small cases, or some of a large one.

    `rows` and `positions` are those of all cases one after the other, `runs` has the tokens of each completion,
    `owners` the completions of each case; `first` is how many completions with tokens come before.
    """

    cases: tuple[Case, ...]
    rows: Integers
    positions: Integers
    runs: Runs
    owners: Runs
    first: int

    def tokens(self, name: str) -> FloatArray:
        """A tensor of the batch, of shape (B, T), (B, 1) or (B,), one value a token."""
        tensors = [getattr(case.batch, name) for case in self.cases]
        wide = [tensor.shape == case.batch.mask.shape for tensor, case in zip(tensors, self.cases, strict=True)]
        if not any(wide):
            per_row = joined([tensor.reshape(-1) for tensor in tensors]).take(self.rows)
            repeated: FloatArray = per_row.repeat(self.runs.lengths)
            return repeated
        if not all(wide):
            tensors = [
                np.broadcast_to(tensor.reshape(tensor.shape[0], -1), case.batch.mask.shape)
                for tensor, case in zip(tensors, self.cases, strict=True)
            ]
        taken: FloatArray = joined([tensor.reshape(-1) for tensor in tensors]).take(self.positions)
        return taken

    def numbers(self, name: str) -> list[Any]:
        """A hyper-parameter of each case."""
        return [getattr(case.spec, name) for case in self.cases]

    @cached_property
    def case_tokens(self) -> Runs:
        """The tokens of each case."""
        return Runs(np.add.reduceat(self.runs.lengths, self.owners.starts))

    @property
    def span(self) -> slice:
        """The completions among all that have tokens."""
        return slice(self.first, self.first + self.rows.size)


class _Judged(NamedTuple):
    """The judged step of a case: its mask, its micro-batches, and the one each row is in; None for one only."""

    mask: Flags
    parts: int
    rows_per_part: int
    part_of: Integers | None


class Layout:
    """The completions of the judged steps of cases that have tokens, and their micro-batches.

    Of several cases each has tokens.
    """

    def __init__(self, cases: Sequence[Case]) -> None:
        self.cases = tuple(cases)
        judged = [_judged(case) for case in cases]
        self.parts: Integers = np.array([one.parts for one in judged])
        self.rows_per_part = [one.rows_per_part for one in judged]
        if len(cases) == 1:
            (mask,) = (one.mask for one in judged)
            lengths = np.count_nonzero(mask, axis=1)
            positions = mask.ravel()
        else:
            positions = joined([one.mask.ravel() for one in judged])
            shapes = np.array([one.mask.shape for one in judged])
            widths = shapes[:, 1].repeat(shapes[:, 0])
            lengths = np.add.reduceat(positions, np.cumsum(widths) - widths, dtype=np.intp)
        self._positions = positions.nonzero()[0]
        self.rows: Integers = lengths.nonzero()[0]
        self.runs = Runs(lengths.take(self.rows))
        self.owners = self._owned(lengths)
        self.part_of = self._parts(judged)

    @property
    def tokens(self) -> int:
        """Unmasked tokens of the steps."""
        return int(self._positions.size)

    @cached_property
    def case_tokens(self) -> Integers:
        """Unmasked tokens of each case's step."""
        counts: Integers = np.add.reduceat(self.runs.lengths, self.owners.starts)
        return counts

    @cached_property
    def part_tokens(self) -> Integers:
        """Unmasked tokens of each micro-batch, those of one case after those of another."""
        counts = np.bincount(self.part_of, weights=self.runs.lengths, minlength=int(self.parts.sum()))
        return counts.astype(np.intp)

    @cached_property
    def case_of(self) -> Integers:
        """The case of each completion."""
        return np.arange(len(self.cases)).repeat(self.owners.lengths)

    def spans(self) -> Iterator[slice]:
        """The completions of each case."""
        first = 0
        for count in self.owners.lengths.tolist():
            yield slice(first, first + count)
            first += count

    def pieces(self, most: int = PIECE) -> Iterator[Piece]:
        """Several cases at once; a large one in pieces of at most `most` tokens or one completion."""
        if self.tokens <= most or len(self.cases) > 1:
            yield Piece(self.cases, self.rows, self._positions, self.runs, self.owners, 0)
            return
        first = begin = 0
        lengths = self.runs.lengths.tolist()
        while first < len(lengths):
            last, size = first + 1, lengths[first]
            while last < len(lengths) and size + lengths[last] <= most:
                size += lengths[last]
                last += 1
            positions = self._positions[begin : begin + size]
            runs, owners = Runs(self.runs.lengths[first:last]), Runs.single(last - first)
            yield Piece(self.cases, self.rows[first:last], positions, runs, owners, first)
            first, begin = last, begin + size

    def _owned(self, lengths: Integers) -> Runs:
        if len(self.cases) == 1:
            return Runs.single(self.rows.size)
        rows = np.array([case.batch.rows for case in self.cases])
        return Runs(np.add.reduceat(lengths > 0, np.cumsum(rows) - rows, dtype=np.intp))

    def _parts(self, judged: Sequence[_Judged]) -> Integers:
        if all(one.part_of is None for one in judged):
            return self.case_of
        before = np.cumsum(self.parts) - self.parts
        each = [
            np.full(one.mask.shape[0], offset) if one.part_of is None else one.part_of + offset
            for one, offset in zip(judged, before, strict=True)
        ]
        of_rows: Integers = joined(each).take(self.rows)
        return of_rows


def _judged(case: Case) -> _Judged:
    batch = case.batch
    if case.split.is_whole:
        return _Judged(batch.mask, 1, batch.rows, None)
    parts = [rows for rank in case.split.judged(batch.rows) for rows in rank]
    mask, part_of = np.zeros_like(batch.mask), np.zeros(batch.rows, dtype=np.intp)
    for number, part in enumerate(parts):
        rows = slice(part.start, part.stop)
        mask[rows], part_of[rows] = batch.mask[rows], number
    return _Judged(mask, len(parts), len(parts[0]), part_of)


def judged_tokens(case: Case) -> int:
    """Unmasked tokens of the judged step of a case."""
    return int(np.count_nonzero(_judged(case).mask))


def joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """One array after the other."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
