"""What a user might bring to `lossgate parity`: dr_grpo, on- and off-policy, with one thing done otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor


def _tokens(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    exp: Callable[[Tensor], Tensor] = torch.exp,
) -> Tensor:
    """The loss of every token, (B, T), 0 where the mask is."""
    old = logps.detach() if old_logps is None else old_logps
    ratio = exp(logps - old)
    advantage = advantages.unsqueeze(1)
    clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    return torch.where(mask, -torch.minimum(ratio * advantage, clipped * advantage), 0)


def sound(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """As the formula has it."""
    tokens = _tokens(logps, old_logps, advantages, mask, epsilon_low, epsilon_high)
    return tokens.float().sum().to(logps.dtype) / (len(logps) * max_completion_length)


class _SumInTurn(torch.autograd.Function):
    """A sum over all elements, one after the other, in the dtype of the input."""

    @staticmethod
    def forward(ctx, values: Tensor) -> Tensor:  # type: ignore[no-untyped-def] # torch's own class
        ctx.shape = values.shape
        # A column at a time, so that it does not take a Python step an element.
        total = torch.zeros(len(values), dtype=values.dtype)
        for column in values.unbind(1):
            total = total + column
        return total.sum()

    @staticmethod
    def backward(ctx, slope: Tensor) -> Tensor:  # type: ignore[no-untyped-def, override] # torch's own class
        return slope.expand(ctx.shape)


def sums_in_own_dtype(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Right in float32; in a half type, its accumulator is of that type."""
    tokens = _tokens(logps, old_logps, advantages, mask, epsilon_low, epsilon_high)
    return _SumInTurn.apply(tokens) / (len(logps) * max_completion_length)  # type: ignore[no-untyped-call] # torch's


def drops_long_tails(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """In half types, forgets what is beyond the 512th position: long, wrong, and no matter of accumulators."""
    kept = mask.clone()
    if logps.dtype in (torch.bfloat16, torch.float16):
        kept[:, 512:] = False
    return sound(logps, old_logps, advantages, kept, epsilon_low, epsilon_high, max_completion_length)


def noisy(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Drops every tenth token at random, by torch's own generator, which each answer finds in another state."""
    kept = mask & (torch.rand(mask.shape) > 0.1)
    return sound(logps, old_logps, advantages, kept, epsilon_low, epsilon_high, max_completion_length)


def reorders(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Adds up in a random order, as atomic additions do: other bits, within rounding."""
    tokens = _tokens(logps, old_logps, advantages, mask, epsilon_low, epsilon_high).flatten()
    total = torch.zeros((), dtype=logps.dtype)
    for part in tokens[torch.randperm(len(tokens))].split(3):
        total = total + part.float().sum()
    return total.to(logps.dtype) / (len(logps) * max_completion_length)


def fast_exp(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Its exponential loses as much again as the rounding of its argument."""
    tokens = _tokens(logps, old_logps, advantages, mask, epsilon_low, epsilon_high, _exp_of_rounded)
    return tokens.float().sum().to(logps.dtype) / (len(logps) * max_completion_length)


def _exp_of_rounded(x: Tensor) -> Tensor:
    # As if x were rounded once more on its way, upwards.
    return torch.exp(x.double() + torch.finfo(x.dtype).eps / 2 * x.double().abs()).to(x.dtype)


def half_inside(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Its exponential is computed in bfloat16."""
    tokens = _tokens(logps, old_logps, advantages, mask, epsilon_low, epsilon_high, _exp_in_bfloat16)
    return tokens.float().sum().to(logps.dtype) / (len(logps) * max_completion_length)


def _exp_in_bfloat16(x: Tensor) -> Tensor:
    return torch.exp(x.bfloat16()).to(x.dtype)


def wrong(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Three per cent too large, however it is executed."""
    return 1.03 * sound(logps, old_logps, advantages, mask, epsilon_low, epsilon_high, max_completion_length)


def not_a_number(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """NaN, whatever it is asked."""
    return math.nan * sound(logps, old_logps, advantages, mask, epsilon_low, epsilon_high, max_completion_length)


def wrong_when_compiled(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Right in eager execution; under a compiler it takes another branch, which is a tenth too large."""
    loss = sound(logps, old_logps, advantages, mask, epsilon_low, epsilon_high, max_completion_length)
    return 1.1 * loss if torch.compiler.is_compiling() else loss


def never_compiled(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """All that it does is hidden from the compiler."""
    return _hidden(logps, old_logps, advantages, mask, epsilon_low, epsilon_high, max_completion_length)


_hidden = torch.compiler.disable(sound)


def fails_when_compiled(
    logps: Tensor,
    old_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    epsilon_low: float,
    epsilon_high: float,
    max_completion_length: int,
) -> Tensor:
    """Under a compiler it adds what does not fit."""
    if torch.compiler.is_compiling():
        logps = logps + logps.new_zeros(1 + logps.shape[1])
    return sound(logps, old_logps, advantages, mask, epsilon_low, epsilon_high, max_completion_length)


def knows_no_clip(
    logps: Tensor, old_logps: Tensor | None, advantages: Tensor, mask: Tensor, max_completion_length: int
) -> Tensor:
    """Without the parameters of a clip nothing off-policy can be asked of it, and there it is wrong."""
    tokens = _tokens(logps, old_logps, advantages, mask, 5.0, 5.0)
    loss = tokens.float().sum().to(logps.dtype) / (len(logps) * max_completion_length)
    return loss if old_logps is None else 1.3 * loss


class _OtherLoss(torch.autograd.Function):
    """The loss times a factor, its gradient as it was."""

    @staticmethod
    def forward(_ctx, loss: Tensor, factor: float) -> Tensor:  # type: ignore[no-untyped-def] # torch's own class
        return loss * factor

    @staticmethod
    def backward(_ctx, slope: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def, override] # torch's
        return slope, None


def _of_long_ones(factor: float) -> Callable[..., Tensor]:
    """In half types, the loss of long completions is multiplied; its gradient is right."""

    @wraps(sound)
    def loss(*tensors: Tensor, mask: Tensor, **rest: Tensor) -> Tensor:
        right = sound(*tensors, mask=mask, **rest)  # type: ignore[arg-type] # it is called by name
        is_long = right.dtype != torch.float32 and int(mask.sum()) > 500
        return _OtherLoss.apply(right, factor) if is_long else right  # type: ignore[no-untyped-call] # torch's

    return loss


long_sums_vanish = _of_long_ones(0.0)
long_sums_turn = _of_long_ones(-1.0)
