"""Descriptions of batches: a few choices that say where in input space a batch lies, without its numbers.

Hypothesis draws a description (at most about a hundred draws); `cases.realisation` fills in the numbers. The
first member of every enumeration is its simplest, so that shrinking moves towards it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import hypothesis.strategies as st

from cases.spec import KLEstimator
from cases.split import Mode, Split


class Ratio(Enum):
    """Where the ratio of a token (token level) or a completion (sequence level) lies."""

    INSIDE = "inside"
    AT_HIGH = "at_high"
    AT_LOW = "at_low"
    JUST_ABOVE_HIGH = "just_above_high"
    JUST_BELOW_LOW = "just_below_low"
    ABOVE_HIGH = "above_high"
    BELOW_LOW = "below_low"
    FAR_ABOVE = "far_above"
    FAR_BELOW = "far_below"
    ONE = "one"
    AT_DELTA = "at_delta"
    AT_DUAL_CLIP = "at_dual_clip"
    BEYOND_20 = "beyond_20"
    BEYOND_MINUS_20 = "beyond_minus_20"
    OVERFLOW = "overflow"


class Advantage(Enum):
    """Sign and size of an advantage."""

    POSITIVE = "positive"
    NEGATIVE = "negative"
    ZERO = "zero"
    DYADIC = "dyadic"
    HUGE = "huge"
    TINY = "tiny"


class Reference(Enum):
    """Where the reference log-probability lies, seen from the current one."""

    TYPICAL = "typical"
    EQUAL = "equal"
    NEAR = "near"
    ABOVE = "above"
    BELOW = "below"
    FAR_ABOVE = "far_above"
    FAR_BELOW = "far_below"


class Layout(Enum):
    """Which positions of a completion hold tokens."""

    PREFIX = "prefix"
    FULL = "full"
    EMPTY = "empty"
    HOLES = "holes"
    LEFT_PADDED = "left_padded"


class Bounds(Enum):
    """epsilon_low and epsilon_high; for cispo the cap is 1 + epsilon_high."""

    DEFAULT = (0.2, 0.2)
    CLIP_HIGHER = (0.2, 0.28)
    DYADIC = (0.25, 0.25)
    WIDE_DYADIC = (0.5, 2.0)
    NARROW = (3e-4, 4e-4)
    LOOSE = (0.1, 4.0)
    LOW_WIDER = (0.3, 0.1)


class Delta(Enum):
    """The second upper bound of the ratio, of losses with a clipped surrogate."""

    NONE = "none"
    ABOVE = "above"
    BELOW = "below"


class Importance(Enum):
    """The importance ratio: its form, and whether some of it is 0."""

    NONE = "none"
    PER_TOKEN = "per_token"
    PER_ROW = "per_row"


class OffPolicyMask(Enum):
    """The off-policy sequence mask: which log-probabilities it reads, and a threshold that it meets exactly."""

    NONE = "none"
    OLD = "old"
    SAMPLING = "sampling"
    AT_THRESHOLD = "at_threshold"


class Horizon(Enum):
    """`max_completion_length` against T."""

    WIDTH = "width"
    LONGER = "longer"
    DEFAULT = "default"


class Own(Enum):
    """The parameters that sapo and vespo have for themselves."""

    DEFAULT = "default"
    OTHER = "other"


@dataclass(frozen=True)
class Row:
    """One completion.

    Tokens take `ratios` in turn; at sequence level the first one is the completion's. `ulps` shifts a ratio
    that lies at a bound. `length` counts the tokens of the layouts that have one (it is cut to T).
    """

    layout: Layout = Layout.PREFIX
    length: int = 1
    ratios: tuple[Ratio, ...] = (Ratio.INSIDE,)
    ulps: int = 0
    advantage: Advantage = Advantage.POSITIVE
    reference: Reference = Reference.TYPICAL


@dataclass(frozen=True)
class Description:
    """A batch without its numbers: `row_count` completions of at most `columns` tokens; options of its loss.

    Where a split needs more completions than there are `rows`, these are taken again, with other lengths.
    """

    rows: tuple[Row, ...]
    columns: int
    bounds: Bounds = Bounds.DEFAULT
    horizon: Horizon = Horizon.LONGER
    on_policy: bool = False
    token_advantages: bool = False
    delta: Delta = Delta.NONE
    kl_estimator: KLEstimator = KLEstimator.K3
    importance: Importance = Importance.NONE
    off_policy_mask: OffPolicyMask = OffPolicyMask.NONE
    split: Split = field(default_factory=Split)
    own: Own = Own.DEFAULT
    seed: int = 0

    @property
    def row_count(self) -> int:
        """B: the rows, taken again until the split's micro-batches are equal."""
        parts = self.split.micro_batches
        return -(-len(self.rows) // parts) * parts


SPLITS: Final = (
    Split(),
    Split(accumulation_steps=2, steps_per_generation=2),
    Split(ranks=2),
    Split(accumulation_steps=4, steps_per_generation=4),
    Split(ranks=3),
    Split(steps_per_generation=2),
    Split(accumulation_steps=2, steps_per_generation=4),
    Split(ranks=2, accumulation_steps=2, steps_per_generation=2),
    Split(ranks=3, accumulation_steps=1, steps_per_generation=2),
    Split(ranks=2, accumulation_steps=2, steps_per_generation=2, mode=Mode.EVAL),
)

OPTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "on_policy": (False, True),
    "token_advantages": (False, True),
    "delta": tuple(Delta),
    # k1 and k2 are of few libraries: the boundary phase has them.
    "kl_estimator": (KLEstimator.K3, KLEstimator.K3_BIAS_CORRECTED),
    "importance": tuple(Importance),
    "off_policy_mask": tuple(OffPolicyMask),
    "split": SPLITS,
    "own": tuple(Own),
}
"""What a description may have beyond the bare loss; every pair of values occurs in every loss and level."""

SHAPES: Final = ((1, 1), (1, 3), (2, 2), (3, 3), (2, 4), (5, 7), (4, 8), (3, 5), (4, 1), (8, 32))
"""Sizes (B, T) that are drawn: small ones find nearly everything, because the bound grows with size."""

_ANYWHERE: Final = tuple(ratio for ratio in Ratio if ratio is not Ratio.OVERFLOW)


@st.composite
def _rows(draw: st.DrawFn, columns: int) -> Row:
    return Row(
        layout=draw(st.sampled_from(Layout)),
        length=draw(st.integers(1, columns)),
        ratios=tuple(draw(st.lists(st.sampled_from(_ANYWHERE), min_size=1, max_size=3))),
        ulps=draw(st.integers(-3, 3)),
        advantage=draw(st.sampled_from(Advantage)),
        reference=draw(st.sampled_from(Reference)),
    )


@st.composite
def descriptions(draw: st.DrawFn) -> Description:
    """Any batch of an ordinary size, without overflow, with any options."""
    rows, columns = draw(st.sampled_from(SHAPES))
    return Description(
        rows=tuple(draw(_rows(columns)) for _ in range(rows)),
        columns=columns,
        bounds=draw(st.sampled_from(Bounds)),
        horizon=draw(st.sampled_from(Horizon)),
        **{name: draw(st.sampled_from(values)) for name, values in OPTIONS.items()},
        seed=draw(st.integers(0, 2**16 - 1)),
    )
