"""One point of the space: a loss as a choice on each axis, in the field's words.

Hyper-parameters are read as each surrogate has them: `epsilon_high` is added to 1 by a clip, is the cap itself
where a ratio is capped, and bounds the log-ratio in a geometric mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class _Choice(Enum):
    """A member's value is what it says, in words that continue a sentence."""

    @property
    def words(self) -> str:
        return str(self.value)


class Aggregation(_Choice):
    """How token losses become one number."""

    SEQUENCE_MEAN = "mean over completions of their token means"
    TOKEN_MEAN = "mean over the tokens of the micro-batch"
    STEP_TOKEN_MEAN = "mean over the tokens of the optimizer step"
    CONSTANT = "sum over tokens divided by B x max_completion_length"
    SEQUENCE_SUM = "mean over completions of their token sums"
    PADDED_MEAN = "mean over all B x T positions, masked ones counted"
    CONSTANT_ALONE = "sum over tokens divided by max_completion_length, without B"
    TOKEN_SUM = "sum over tokens"


class Rows(_Choice):
    """Which completions count in a mean over completions."""

    COUNTED = "completions without tokens counted"
    NOT_COUNTED = "completions without tokens not counted"
    NOT_COUNTED_APART = "completions without tokens not counted in each micro-batch"


class Ratio(_Choice):
    """What the importance ratio is."""

    TOKEN = "one ratio a token"
    SEQUENCE = "one length-normalised ratio a completion"
    SEQUENCE_TOKEN = "one ratio a completion, with a gradient to each token alone"
    PRODUCT = "one ratio a completion, the product of its tokens'"
    ON_POLICY = "a ratio of 1, old_logps ignored"
    INVERTED = "the old probability over the current one as the ratio"


class Surrogate(_Choice):
    """The policy term of a token."""

    CLIP = "clipped surrogate"
    DUAL_CLIP = "clipped surrogate with a dual clip"
    UNCLIPPED = "surrogate without a clip"
    CLIP_BY_LOW = "clipped surrogate with epsilon_low on both sides"
    CLIP_BY_HIGH = "clipped surrogate with epsilon_high on both sides"
    CLIP_SWAPPED = "clipped surrogate with epsilon_low and epsilon_high exchanged"
    CLIP_ALONE = "clipped ratio without the minimum"
    CLIP_LARGER = "the larger of r A and clip(r) A, where the smaller is meant"
    CLIP_PASSING = "clipped surrogate whose clip passes the gradient"
    CLIP_DETACHED = "detached ratio clipped to [1 - epsilon_low, 1 + epsilon_high]"
    CAP = "detached ratio capped at epsilon_high"
    CAP_ABOVE_ONE = "cap of 1 + epsilon_high on the detached ratio"
    CAP_TWO_SIDED = "detached ratio clipped to [1 - epsilon_low, epsilon_high]"
    CAP_PASSING = "ratio not detached, capped at epsilon_high"
    DETACHED = "detached ratio without a cap"
    REINFORCE = "REINFORCE, without a ratio"
    SOFT_GATE = "soft gate of the ratio"
    GAMMA = "gamma weight of the completion's ratio"
    GEOMETRIC = "geometric mean of clipped ratios"


class KL(_Choice):
    """The KL term of a token."""

    NONE = "no KL term"
    K1 = "k1"
    K2 = "k2"
    K3 = "k3"
    K3_BIAS_CORRECTED = "bias-corrected k3"
    K3_REVERSED = "k3 with logps and ref_logps exchanged"
    K3_DETACHED = "k3 without a gradient"
    K3_LINEAR_SIGN = "k3 with the wrong sign of its linear part"
    K3_RATIO_DETACHED = "bias-corrected k3 with a detached ratio"
    K3_CORRECTS_DETACHED = "bias-corrected k3 with a gradient through the ratio alone"
    K3_DIVIDED = "k3 divided by the ratio"
    ABSOLUTE = "absolute difference"


class Placement(_Choice):
    """Where the KL term stands."""

    WITH_POLICY = "inside the token sum"
    TOKEN_MEAN = "as a token mean of its own"
    MICRO_BATCH_MEAN = "as a token mean of its own over the micro-batch"
    SEQUENCE_MEAN = "as a mean over completions of its own"


class Weighting(_Choice):
    """What an importance ratio multiplies."""

    POLICY = "importance ratio on the policy term"
    BOTH = "importance ratio on the policy term and the KL term"
    NONE = "importance ratio ignored"


@dataclass(frozen=True)
class Variant:
    """A loss as a point of the space."""

    aggregation: Aggregation
    ratio: Ratio = Ratio.TOKEN
    surrogate: Surrogate = Surrogate.CLIP
    kl: KL = KL.NONE
    placement: Placement = Placement.WITH_POLICY
    rows: Rows = Rows.COUNTED
    weighting: Weighting = Weighting.POLICY

    @property
    def words(self) -> str:
        """The whole formula in one line."""
        parts = [self.surrogate.words, self.ratio.words, self.aggregation.words]
        if self.kl is KL.NONE:
            parts.append(self.kl.words)
        else:
            parts.append(f"{self.kl.words} {self.placement.words}")
        parts += [choice.words for choice in (self.rows, self.weighting) if choice not in _USUAL]
        return ", ".join(parts)

    def differences(self, other: Variant) -> tuple[str, ...]:
        """What this one does where it does otherwise than another, in words."""
        return tuple(getattr(self, axis).words for axis in AXES if getattr(self, axis) is not getattr(other, axis))


AXES = ("surrogate", "ratio", "aggregation", "kl", "placement", "rows", "weighting")
_USUAL = (Rows.COUNTED, Weighting.POLICY)
