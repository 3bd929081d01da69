"""Where the unmasked tokens of a case lie: one flat axis of tokens, cut into completions.

Padding cannot leak into an oracle because it is not in here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from cases.case import Case
from cases.dtypes import FloatArray
from oracles.batched.arithmetic import Starts

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


@dataclass(frozen=True, eq=False)
class Piece:
    """Some completions with all their tokens: their rows in the batch and the flat positions of their tokens."""

    case: Case
    rows: Integers
    positions: Integers
    runs: Runs
    first: int

    def tokens(self, tensor: FloatArray) -> FloatArray:
        """A tensor of shape (B, T), (B, 1) or (B,), one value a token."""
        if tensor.ndim == 2 and tensor.shape == self.case.batch.mask.shape:
            taken: FloatArray = tensor.ravel().take(self.positions)
            return taken
        per_row = tensor.reshape(-1).take(self.rows)
        repeated: FloatArray = per_row.repeat(self.runs.lengths)
        return repeated

    @property
    def span(self) -> slice:
        """The completions among all that have tokens."""
        return slice(self.first, self.first + self.rows.size)


class Layout:
    """The completions of the judged step that have tokens, by their rows in the batch, and their micro-batches."""

    def __init__(self, case: Case) -> None:
        batch = case.batch
        self.case = case
        if case.split.is_whole:
            mask, rows = batch.mask, None
            self.parts, self.rows_per_part = 1, batch.rows
        else:
            parts = [rows for rank in case.split.judged(batch.rows) for rows in rank]
            self.parts, self.rows_per_part = len(parts), len(parts[0])
            rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
            mask = np.zeros_like(batch.mask)
            mask[rows] = batch.mask[rows]
        lengths = np.count_nonzero(mask, axis=1)
        self._positions = mask.ravel().nonzero()[0]
        self.rows: Integers = lengths.nonzero()[0]
        self.runs = Runs(lengths.take(self.rows))
        order = self.rows if rows is None else np.searchsorted(rows, self.rows)
        self.part_of: Integers = order // self.rows_per_part

    @property
    def tokens(self) -> int:
        """Unmasked tokens of the step."""
        return int(self._positions.size)

    @cached_property
    def part_tokens(self) -> Integers:
        """Unmasked tokens of each micro-batch."""
        counts = np.bincount(self.part_of, weights=self.runs.lengths, minlength=self.parts)
        return counts.astype(np.intp)

    def pieces(self, most: int = PIECE) -> Iterator[Piece]:
        """The step in pieces of at most `most` tokens, or of one completion."""
        if self.tokens <= most:
            yield Piece(self.case, self.rows, self._positions, self.runs, 0)
            return
        first = begin = 0
        lengths = self.runs.lengths.tolist()
        while first < len(lengths):
            last, size = first + 1, lengths[first]
            while last < len(lengths) and size + lengths[last] <= most:
                size += lengths[last]
                last += 1
            runs = Runs(self.runs.lengths[first:last])
            yield Piece(self.case, self.rows[first:last], self._positions[begin : begin + size], runs, first)
            first, begin = last, begin + size
