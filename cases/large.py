"""Large batches: what only size shows, as counts that overflow, coarse accumulators, blocks and their rests.

They are few, of fixed sizes and of typical numbers; a run puts them last, where it is asked to. Sizes lie just
beyond those at which code changes its ways: 128, 256, 1,024 and 4,096 positions; 2^15 and 2^16 tokens; 256 and
2,048, up to which bfloat16 and float16 count exactly; 65,504, the largest float16.
"""

from __future__ import annotations

from typing import Final

from cases.batch import Batch
from cases.descriptions import Advantage, Description, Horizon, Layout, Ratio, Row
from cases.split import Split

MOST_POSITIONS: Final = 2048
"""A batch of more positions is large: it is judged, and not taken apart in exact arithmetic."""

_MIXED: Final = (Ratio.INSIDE, Ratio.ABOVE_HIGH, Ratio.INSIDE, Ratio.BELOW_LOW, Ratio.INSIDE)
_SIGNS: Final = (Advantage.POSITIVE, Advantage.NEGATIVE)
_BLOCK_EDGES: Final = (127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024)


def is_large(batch: Batch) -> bool:
    """Whether a batch is too large for exact arithmetic, or to be written out number by number."""
    return batch.mask.size > MOST_POSITIONS


def large_descriptions() -> tuple[Description, ...]:
    """The descriptions of the large phase, always the same, the smallest first."""
    alike = Row(Layout.FULL, 1, (Ratio.ONE,), advantage=Advantage.POSITIVE)
    return (
        # Completions of one position more than a block, of either sign.
        Description(tuple(_full(row) for row in range(3)), columns=1025),
        Description((_full(0),), columns=4097),
        # More completions than float16 counts, an odd number of them.
        Description(tuple(_ragged(row, 3) for row in range(2049)), columns=3),
        # A single completion of more tokens than 16 bits count, an odd number of them.
        Description((_full(0),), columns=65_537),
        # Lengths on both sides of the blocks, counted over two micro-batches on each of two ranks.
        Description(
            tuple(_of_block(row) for row in range(64)),
            columns=1024,
            split=Split(ranks=2, accumulation_steps=2, steps_per_generation=2),
        ),
        # Every layout, an empty completion and one of a single token.
        Description((*(_ragged(row, 4096) for row in range(62)), Row(Layout.EMPTY), _full(1)), columns=4096),
        # Equal summands: what a coarse accumulator loses has one sign.
        Description((alike,) * 64, columns=4096, horizon=Horizon.WIDTH, on_policy=True),
        Description(tuple(_full(row) for row in range(64)), columns=4096, horizon=Horizon.WIDTH),
    )


def _full(row: int) -> Row:
    return Row(Layout.FULL, 1, _MIXED, advantage=_SIGNS[row % 2])


def _ragged(row: int, columns: int) -> Row:
    """A completion of another length and layout than its neighbours'; some have a single token."""
    layout = (Layout.PREFIX, Layout.LEFT_PADDED, Layout.HOLES)[row % 3]
    return Row(layout, 1 + row * 67 % columns, _MIXED, advantage=_SIGNS[row % 2])


def _of_block(row: int) -> Row:
    layout = (Layout.PREFIX, Layout.HOLES)[row % 2]
    return Row(layout, _BLOCK_EDGES[row % len(_BLOCK_EDGES)], _MIXED, advantage=_SIGNS[row % 2])
