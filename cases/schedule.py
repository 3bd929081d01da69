"""The boundary phase: every region of input space once, by small batches made for it.

Batches of one token with an acting clip are the test of epsilon: the value of a bound shows in the loss only,
and its error bound grows with size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Final

from cases.descriptions import (
    SPLITS,
    Advantage,
    Bounds,
    Delta,
    Description,
    Horizon,
    Importance,
    Layout,
    OffPolicyMask,
    Own,
    Ratio,
    Reference,
    Row,
)
from cases.spec import KLEstimator

_RATIOS: Final = (
    Ratio.ABOVE_HIGH,
    Ratio.BELOW_LOW,
    Ratio.BEYOND_20,
    Ratio.BEYOND_MINUS_20,
    Ratio.FAR_ABOVE,
    Ratio.INSIDE,
    Ratio.ONE,
    Ratio.AT_HIGH,
    Ratio.AT_LOW,
    Ratio.FAR_BELOW,
    Ratio.JUST_ABOVE_HIGH,
    Ratio.JUST_BELOW_LOW,
    Ratio.AT_DELTA,
    Ratio.AT_DUAL_CLIP,
)
"""What a faulty clip or clamp shows at, the most telling first."""


def boundary_descriptions() -> tuple[Description, ...]:
    """The descriptions of the boundary phase, always the same."""
    return tuple(replace(description, seed=number) for number, description in enumerate(_boundaries()))


def _boundaries() -> Iterator[Description]:
    """One of each kind in turn, so that the first few dozen are of every kind."""
    options = _options()
    # Options are so many that they take three places in every turn.
    kinds = (_one_token(), options, _layouts(), options, _references(), options, _advantages(), _overflows())
    for turn in zip_longest(*kinds):
        yield from (description for description in turn if description is not None)
    yield from _own()
    yield from _beside_zero()


def _one_token() -> Iterator[Description]:
    for ratio in _RATIOS:
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
    yield Description(ragged[1:2], columns=3, token_advantages=True)
    yield Description((*ragged, *ragged), columns=1, token_advantages=True)
    yield Description(ragged, columns=4)
    yield Description(ragged, columns=4, on_policy=True, token_advantages=True)
    yield Description(equal, columns=4)
    yield Description(ragged, columns=5, bounds=Bounds.LOW_WIDER)
    yield Description(tuple(Row(Layout.FULL, 1, (Ratio.ONE,), advantage=sign) for sign in (up, down)), columns=2)
    # Beyond the sizes that kernels work in blocks of.
    yield Description((Row(Layout.FULL, 1, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=up),), columns=300)
    yield Description(ragged * 10, columns=2)
    yield Description(ragged[:3], columns=20, on_policy=True)
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
            own = Own.DEFAULT if token_advantages else Own.OTHER
            yield Description(rows, columns=4, token_advantages=token_advantages, own=own)


def _references() -> Iterator[Description]:
    for reference in Reference:
        rows = (
            Row(Layout.PREFIX, 2, (Ratio.INSIDE,), reference=reference),
            Row(Layout.FULL, 1, (Ratio.ABOVE_HIGH,), advantage=Advantage.NEGATIVE, reference=reference),
        )
        yield Description(rows, columns=3)
        yield Description((Row(advantage=Advantage.ZERO, reference=reference),), columns=1, bounds=Bounds.DYADIC)
        # Some implementations know no old policy.
        yield Description(rows[:1], columns=3, on_policy=True)


def _overflows() -> Iterator[Description]:
    for sign in (Advantage.POSITIVE, Advantage.NEGATIVE, Advantage.ZERO):
        rows = (
            Row(Layout.FULL, 1, (Ratio.OVERFLOW, Ratio.INSIDE), advantage=sign),
            Row(Layout.PREFIX, 2, (Ratio.INSIDE,), advantage=Advantage.NEGATIVE),
        )
        yield Description(rows, columns=3)


def _options() -> Iterator[Description]:
    """Every option by itself, where its values act; each kind once before any comes again."""
    for turn in zip_longest(_deltas(), _kl_and_importance(), _off_policy(), _splits()):
        yield from (description for description in turn if description is not None)


def _deltas() -> Iterator[Description]:
    for delta in (Delta.BELOW, Delta.ABOVE):
        for ratio in (Ratio.FAR_ABOVE, Ratio.AT_DELTA, Ratio.INSIDE):
            for sign in (Advantage.NEGATIVE, Advantage.POSITIVE):
                yield Description((Row(ratios=(ratio,), advantage=sign),), columns=1, delta=delta)


_MIXED: Final = (
    Row(Layout.FULL, 1, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
    Row(Layout.PREFIX, 2, (Ratio.BELOW_LOW, Ratio.INSIDE), advantage=Advantage.NEGATIVE),
    Row(Layout.HOLES, 1, (Ratio.ABOVE_HIGH,), advantage=Advantage.NEGATIVE, reference=Reference.ABOVE),
)


def _kl_and_importance() -> Iterator[Description]:
    corrected = KLEstimator.K3_BIAS_CORRECTED
    yield Description(_MIXED, columns=3, kl_estimator=corrected)
    for importance in (Importance.PER_TOKEN, Importance.PER_ROW):
        yield Description(_MIXED, columns=3, importance=importance)
        yield Description(_MIXED[1:], columns=4, importance=importance, token_advantages=True)
    for sign in (Advantage.POSITIVE, Advantage.NEGATIVE):
        row = Row(ratios=(Ratio.ABOVE_HIGH,), advantage=sign, reference=Reference.ABOVE)
        yield Description((row,), columns=1, kl_estimator=corrected)
    for estimator in (KLEstimator.K1, KLEstimator.K2):
        yield Description(_MIXED, columns=3, kl_estimator=estimator)
        rows = tuple(replace(row, reference=Reference.FAR_BELOW) for row in _MIXED[:2])
        yield Description(rows, columns=2, kl_estimator=estimator)


def _off_policy() -> Iterator[Description]:
    for mask in (OffPolicyMask.OLD, OffPolicyMask.SAMPLING, OffPolicyMask.AT_THRESHOLD):
        yield Description(_MIXED, columns=3, off_policy_mask=mask)
    # Close to the old log-probabilities and often far from the sampling ones.
    near = Row(ratios=(Ratio.INSIDE,), advantage=Advantage.NEGATIVE)
    yield Description((near,) * 4, columns=1, off_policy_mask=OffPolicyMask.SAMPLING)
    # Drifted, with an advantage above 0; then with a sum above the threshold and a mean below it.
    drifted = Row(Layout.FULL, 1, (Ratio.BELOW_LOW,), advantage=Advantage.POSITIVE)
    yield Description((drifted, _MIXED[1]), columns=3, off_policy_mask=OffPolicyMask.OLD)
    spread = Row(Layout.FULL, 1, (Ratio.AT_LOW,), advantage=Advantage.NEGATIVE)
    yield Description((spread,), columns=4, bounds=Bounds.LOOSE, off_policy_mask=OffPolicyMask.OLD)
    for mask in (OffPolicyMask.OLD, OffPolicyMask.SAMPLING, OffPolicyMask.AT_THRESHOLD):
        yield Description(_MIXED, columns=3, off_policy_mask=mask, token_advantages=True)
    # A token that may be certain, and then has a drift that nothing rounds: equality is decided, and keeps it.
    certain = Row(ratios=(Ratio.ONE,), advantage=Advantage.NEGATIVE)
    for rows in (1, 2, 3, 4):
        yield Description((certain,) * rows, columns=1, off_policy_mask=OffPolicyMask.AT_THRESHOLD)


def _own() -> Iterator[Description]:
    yield Description(_MIXED, columns=3, own=Own.OTHER)
    for sign in (Advantage.POSITIVE, Advantage.NEGATIVE):
        for ratio in (Ratio.INSIDE, Ratio.ABOVE_HIGH):
            yield Description((Row(ratios=(ratio,), advantage=sign),), columns=1, own=Own.OTHER)


def _beside_zero() -> Iterator[Description]:
    """An advantage of 0 beside others: whether its tokens count shows only there."""
    advantages = (Advantage.POSITIVE, Advantage.ZERO, Advantage.NEGATIVE)
    rows = tuple(replace(row, advantage=advantage) for row, advantage in zip(_MIXED, advantages, strict=True))
    for on_policy in (False, True):
        yield Description(rows, columns=3, on_policy=on_policy)


def _splits() -> Iterator[Description]:
    # Evaluation, the last, is unlike the others.
    for split in (SPLITS[-1], *SPLITS[1:-1]):
        yield Description(_MIXED, columns=3, split=split)


def padding_descriptions() -> tuple[Description, ...]:
    """What padding hygiene is checked on: masked positions of every kind, in every tensor there is."""
    rows = (
        Row(Layout.PREFIX, 2, (Ratio.INSIDE, Ratio.ABOVE_HIGH), advantage=Advantage.POSITIVE),
        Row(Layout.LEFT_PADDED, 3, (Ratio.BELOW_LOW, Ratio.INSIDE), advantage=Advantage.NEGATIVE),
        Row(Layout.EMPTY),
        Row(Layout.HOLES, 2, (Ratio.ABOVE_HIGH,), advantage=Advantage.NEGATIVE),
    )
    plain = Description(rows, columns=4, seed=1)
    per_token = replace(plain, token_advantages=True, seed=2)
    return (
        plain,
        per_token,
        replace(per_token, importance=Importance.PER_TOKEN, off_policy_mask=OffPolicyMask.SAMPLING, seed=3),
    )
