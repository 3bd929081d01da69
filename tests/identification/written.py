"""One GRPO loss with a place for each choice, so that a mistake is one line otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

RIGHT: Final[Mapping[str, str]] = MappingProxyType(
    {
        "options": "old_logps, ref_logps, importance_ratio, beta",
        "ratio": "torch.exp(log_ratio)",
        "surrogate": "-torch.min(ratio * adv, ratio.clamp(1 - epsilon_low, 1 + epsilon_high) * adv)",
        "kl": "torch.exp(x) - x - 1",
        "weighed": "weight * policy + beta * kl",
        "loss": "((terms * mask).sum(1) / lengths).mean()",
    }
)
"""The choices of grpo, as Python expressions."""

_TEXT: Final = """
import torch

def loss(logps, advantages, mask, {options}, epsilon_low, epsilon_high, max_completion_length):
    mask = mask.to(logps.dtype)
    lengths = mask.sum(1).clamp(min=1)
    adv = advantages if advantages.dim() == 2 else advantages[:, None]
    log_ratio = logps - (logps.detach() if old_logps is None else old_logps)
    mean_log_ratio = ((log_ratio * mask).sum(1) / lengths)[:, None]
    ratio = {ratio}
    policy = {surrogate}
    x = 0 if ref_logps is None else ref_logps - logps
    kl = 0 if ref_logps is None else {kl}
    weight = 1 if importance_ratio is None else importance_ratio
    terms = {weighed}
    return {loss}
"""

_ABSENT: Final = {"old_logps": "None", "ref_logps": "None", "importance_ratio": "None", "beta": "0.0"}


def written(**choices: str) -> str:
    """A module with a function `loss`, grpo but for some choices; `options` that it lacks are as if not given."""
    chosen = {**RIGHT, **choices}
    lacking = "".join(
        f"{name} = {value}\n" for name, value in _ABSENT.items() if name not in chosen["options"].split(", ")
    )
    return lacking + _TEXT.format(**chosen)
