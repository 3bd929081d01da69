"""What papers leave open and libraries settle differently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cases.fields import number, set_member, set_members, set_number, set_optional_number


class EmptyRows(StrEnum):
    """Whether a completion without tokens counts in B."""

    COUNTED = "counted"
    NOT_COUNTED = "not_counted"


class WindowTokens(StrEnum):
    """Which tokens dapo, cispo and vespo divide by when a generation batch is split into optimizer steps.

    `exact`: the tokens of this step. `generation_average`: those of the whole generation batch times
    accumulation_steps / steps_per_generation.
    """

    EXACT = "exact"
    GENERATION_AVERAGE = "generation_average"


class PaddingPromise(StrEnum):
    """What may stand at masked positions without changing the answer."""

    FINITE = "finite"
    HUGE = "huge"
    INF = "inf"
    NAN = "nan"


class SequenceGradient(StrEnum):
    """Which way the gradient takes through the ratio of a completion.

    `completion`: through the ratio to all its tokens (GSPO). `token`: each token has the ratio's value with a
    gradient to itself alone (GSPO-token); the two differ where advantages are per token.
    """

    COMPLETION = "completion"
    TOKEN = "token"


class CispoClip(StrEnum):
    """How cispo bounds its detached ratio.

    `cap`: min(r, epsilon_high). `two_sided`: clip(r, 1 - epsilon_low, epsilon_high). In both, `epsilon_high` is
    absolute, not 1 plus it.
    """

    CAP = "cap"
    TWO_SIDED = "two_sided"


class KLBounded(StrEnum):
    """Which estimates the bounds of the KL term act on.

    `every`: all. `exponential`: k3, plain or bias-corrected, alone: the bounds guard its exponential.
    """

    EVERY = "every"
    EXPONENTIAL = "exponential"


class KLAggregation(StrEnum):
    """How the KL terms of tokens become one number.

    `with_policy`: inside the token sum, as the policy terms. `token_mean`: by themselves, their sum over the step
    divided by its unmasked tokens, whatever the loss does with its policy terms.
    """

    WITH_POLICY = "with_policy"
    TOKEN_MEAN = "token_mean"


@dataclass(frozen=True)
class Conventions:
    """What papers leave open and libraries settle differently; a target declares its own.

    * `empty_rows`: whether a completion without tokens counts in B.
    * `window_tokens`: what dapo, cispo and vespo divide by when a generation batch is split.
    * `padding`: what the target promises to ignore at masked positions.
    * `log_ratio_bounds`: what the log-ratio, of a token or of a completion, is clipped to before its exponential
      is taken, as (low, high), either of which may be None; the gradient is 0 beyond.
    * `kl_log_ratio_bound` b > 0: `ref_logps - logps` is clipped to [-b, b] before KL is estimated.
    * `kl_bound` b > 0: the KL estimate of a token, bias-corrected where it is, is clipped to [-b, b].
    * `kl_bounded`: which estimates these two bounds act on.
    * `kl_aggregation`: how the KL terms of tokens become one number.
    * `dual_clip` c > 1: where the advantage is below 0, the policy term of a clipped surrogate is at most -c A
      (Ye et al. 2019, arXiv 1912.09729).
    * `sequence_gradient`: which way the gradient takes through the ratio of a completion.
    * `cispo_clip`: how cispo bounds its ratio.
    * `denominator_epsilon` >= 0: added to the number of tokens that token losses are averaged over.

    Raises `ValueError` naming the field, what it got and what it takes.
    """

    empty_rows: EmptyRows = EmptyRows.COUNTED
    window_tokens: WindowTokens = WindowTokens.EXACT
    padding: tuple[PaddingPromise, ...] = (PaddingPromise.FINITE,)
    log_ratio_bounds: tuple[float | None, float | None] = (None, None)
    kl_log_ratio_bound: float | None = None
    kl_bound: float | None = None
    kl_bounded: KLBounded = KLBounded.EVERY
    kl_aggregation: KLAggregation = KLAggregation.WITH_POLICY
    dual_clip: float | None = None
    sequence_gradient: SequenceGradient = SequenceGradient.COMPLETION
    cispo_clip: CispoClip = CispoClip.CAP
    denominator_epsilon: float = 0.0

    def __post_init__(self) -> None:
        set_member(self, "empty_rows", EmptyRows)
        set_member(self, "window_tokens", WindowTokens)
        set_members(self, "padding", PaddingPromise)
        set_member(self, "kl_bounded", KLBounded)
        set_member(self, "kl_aggregation", KLAggregation)
        set_member(self, "sequence_gradient", SequenceGradient)
        set_member(self, "cispo_clip", CispoClip)
        set_optional_number(self, "kl_log_ratio_bound", lambda bound: bound > 0, "a number above 0")
        set_optional_number(self, "kl_bound", lambda bound: bound > 0, "a number above 0")
        set_optional_number(self, "dual_clip", lambda bound: bound > 1, "a number above 1")
        set_number(self, "denominator_epsilon", lambda epsilon: 0 <= epsilon < 1, "a number from 0 to below 1")
        object.__setattr__(self, "log_ratio_bounds", _bounds(self.log_ratio_bounds))


def _bounds(value: object) -> tuple[float | None, float | None]:
    takes = "a lower bound below 0 or None, and an upper bound above 0 or None"
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise ValueError(f"log_ratio_bounds: got {value!r:.40}, takes {takes}")
    low, high = value
    return (
        None if low is None else number("log_ratio_bounds", low, lambda bound: bound < 0, takes),
        None if high is None else number("log_ratio_bounds", high, lambda bound: bound > 0, takes),
    )


USUAL: Final = Conventions()
"""The bare formulas'."""
