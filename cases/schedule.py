"""The boundary phase: every region of input space once, by small batches made for it.

Batches of one token with an acting clip are the test of epsilon: the value of a bound shows in the loss only,
and its error bound grows with size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cases.descriptions import Advantage, Bounds, Description, Horizon, Layout, Ratio, Reference, Row


def boundary_descriptions() -> tuple[Description, ...]:
    """The descriptions of the boundary phase, always the same."""
    return tuple(replace(description, seed=number) for number, description in enumerate(_boundaries()))


def _boundaries() -> Iterator[Description]:
    yield from _one_token()
    yield from _layouts()
    yield from _advantages()
    yield from _references()
    yield from _overflows()


def _one_token() -> Iterator[Description]:
    for ratio in Ratio:
        if ratio is Ratio.OVERFLOW:
            continue
        for sign in (Advantage.POSITIVE, Advantage.NEGATIVE):
            bounds = Bounds.CLIP_HIGHER if sign is Advantage.POSITIVE else Bounds.DEFAULT
            yield Description((Row(ratios=(ratio,), advantage=sign),), columns=1, bounds=bounds)
    for bounds in Bounds:
        for ratio in (Ratio.ABOVE_HIGH, Ratio.BELOW_LOW):
            for sign in (Advantage.POSITIVE, Advantage.NEGATIVE):
                yield Description((Row(ratios=(ratio,), advantage=sign),), columns=1, bounds=bounds)


def _layouts() -> Iterator[Description]:
    inside, above, below = (Ratio.INSIDE,), (Ratio.ABOVE_HIGH,), (Ratio.BELOW_LOW,)
    up, down = Advantage.POSITIVE, Advantage.NEGATIVE
    ragged = (
        Row(Layout.PREFIX, 1, inside, advantage=up),
        Row(Layout.FULL, 1, above, advantage=down),
        Row(Layout.HOLES, 3, below, advantage=up),
        Row(Layout.LEFT_PADDED, 2, inside, advantage=down),
    )
    empty = Row(Layout.EMPTY)
    equal = tuple(Row(Layout.PREFIX, 2, inside, advantage=sign) for sign in (up, down, up))
    for on_policy in (False, True):
        yield Description(ragged, columns=5, on_policy=on_policy)
        yield Description((empty, *ragged[:2]), columns=4, horizon=Horizon.DEFAULT, on_policy=on_policy)
        yield Description((empty, empty), columns=2, on_policy=on_policy)
    yield Description(ragged, columns=4, token_advantages=True, horizon=Horizon.WIDTH)
    yield Description(ragged, columns=4)
    yield Description(equal, columns=4)
    yield Description(ragged[1:2], columns=6)
    yield Description((*ragged, *ragged), columns=1)
    mixed = (Ratio.AT_HIGH, Ratio.INSIDE, Ratio.AT_LOW)
    for ulps in (-2, -1, 0, 1, 2):
        rows = tuple(Row(Layout.FULL, 1, mixed, ulps, sign) for sign in (up, down))
        yield Description(rows, columns=3, bounds=Bounds.CLIP_HIGHER)
    yield Description(
        tuple(Row(Layout.FULL, 1, (ratio,), 0, up) for ratio in mixed), columns=3, token_advantages=True
    )


def _advantages() -> Iterator[Description]:
    for advantage in Advantage:
        rows = (
            Row(Layout.PREFIX, 2, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=advantage),
            Row(Layout.FULL, 1, (Ratio.BELOW_LOW, Ratio.FAR_ABOVE), advantage=advantage),
        )
        for token_advantages in (False, True):
            yield Description(rows, columns=4, token_advantages=token_advantages)


def _references() -> Iterator[Description]:
    for reference in Reference:
        rows = (
            Row(Layout.PREFIX, 2, (Ratio.INSIDE,), reference=reference),
            Row(Layout.FULL, 1, (Ratio.ABOVE_HIGH,), advantage=Advantage.NEGATIVE, reference=reference),
        )
        yield Description(rows, columns=3)
        yield Description((Row(advantage=Advantage.ZERO, reference=reference),), columns=1, bounds=Bounds.DYADIC)


def _overflows() -> Iterator[Description]:
    for sign in (Advantage.POSITIVE, Advantage.NEGATIVE, Advantage.ZERO):
        rows = (
            Row(Layout.FULL, 1, (Ratio.OVERFLOW, Ratio.INSIDE), advantage=sign),
            Row(Layout.PREFIX, 2, (Ratio.INSIDE,), advantage=Advantage.NEGATIVE),
        )
        yield Description(rows, columns=3)
