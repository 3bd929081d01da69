"""A library whose loss takes packed tokens, and its target for lossgate.

pip install ./examples/plugin
lossgate run packed-losses
"""

from collections.abc import Mapping

import torch


def packed_grpo(logps, old_logps, advantages, lengths, epsilon_low, epsilon_high):
    """GRPO of completions that lie one after another, without padding: the first three are 1-D, one a token."""
    ratio = torch.exp(logps - old_logps)
    clipped = ratio.clamp(1 - epsilon_low, 1 + epsilon_high)
    losses = -torch.min(ratio * advantages, clipped * advantages)
    means = [part.sum() / max(len(part), 1) for part in losses.split(lengths)]
    return torch.stack(means).mean()


def target(api):
    """The entry point: `api` holds what a target is made of, so that nothing of lossgate is imported here."""

    class PackedLosses(api.Target):
        label = "packed-losses 0.1.0"
        versions: Mapping = {"packed-losses": "0.1.0"}
        supports = api.Support(loss_types=("grpo",), levels=("token",), options=("old_logps", "token_advantages"))
        # What stands at masked positions is never packed.
        conventions: Mapping = {"empty_rows": "counted", "padding": ["finite", "huge", "inf", "nan"]}

        def loss(self, case):
            mask, now = case.mask, case.logps
            old = now.detach() if case.old_logps is None else case.old_logps
            advantages = case.advantages if case.advantages.dim() == 2 else case.advantages[:, None].expand_as(now)
            lengths, bounds = mask.sum(1).tolist(), (case.spec.epsilon_low, case.spec.epsilon_high)
            return packed_grpo(now[mask], old[mask], advantages[mask], lengths, *bounds)

    return PackedLosses()
