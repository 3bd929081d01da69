"""What TRL's releases have and have not: the tables that the adapter goes by.

A release is known by what its trainer and its configuration have, never by its number: a fork's says little. The
releases named here are where TRL itself began or ceased to have a thing; nothing reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOGPS_METHODS = ("_get_per_token_logps_and_entropies", "_get_per_token_logps")


@dataclass(frozen=True)
class Trait:
    """Something that a trainer has where it, or its `args`, has an attribute of that name.

    `gives` is the option of a case, or the level, that it makes possible.
    """

    gives: str
    attribute: str
    of_args: bool
    since: str

    def is_in(self, trainer: Any) -> bool:
        """Whether the trainer has it."""
        return hasattr(trainer.args if self.of_args else trainer, self.attribute)


OPTIONS = (
    Trait("beta", "beta", of_args=False, since="0.14"),
    Trait("old_logps", "epsilon_low", of_args=False, since="0.16"),
    Trait("delta", "delta", of_args=True, since="0.18"),
    Trait("importance_ratio", "vllm_importance_sampling_correction", of_args=False, since="0.23"),
    Trait("k3_bias_corrected", "use_bias_correction_kl", of_args=True, since="0.26"),
    Trait("off_policy_mask", "off_policy_mask_threshold", of_args=False, since="0.27"),
)

LEVELS = (Trait("sequence", "importance_sampling_level", of_args=False, since="0.20"),)


@dataclass(frozen=True)
class Kind:
    """A way in which releases hold their loss.

    A trainer is of the first kind that it fits: it has the method `scores`, or none of `LOGPS_METHODS` where that
    is None, all of `has` and none of `lacks`.

    * `scores`: the method that the loss takes log-probabilities from; None where the loss is the end of a method
      that samples and scores as well.
    * `loss_type`: the one loss there is, where a trainer cannot be told which; its name is our own.
    * `reads_old`: `old_per_token_logps` is looked up on-policy too, and is None then.
    * `reads_reference`: `ref_per_token_logps` is looked up and used even where beta is 0.
    """

    releases: str
    scores: str | None
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    loss_type: str | None = None
    reads_old: bool = False
    reads_reference: bool = False

    def fits(self, trainer: Any) -> bool:
        """Whether the trainer is of this kind."""
        methods = LOGPS_METHODS if self.scores is None else (self.scores,)
        return (
            any(hasattr(trainer, method) for method in methods) is (self.scores is not None)
            and all(hasattr(trainer, name) for name in self.has)
            and not any(hasattr(trainer, name) for name in self.lacks)
        )


_WITH_ENTROPIES, _ALONE = LOGPS_METHODS
_NO_CHOICE = ("loss_type", "epsilon_low")

KINDS = (
    Kind("0.20 and later", _WITH_ENTROPIES, has=("loss_type",)),
    Kind("0.17 to 0.19", _ALONE, has=("loss_type",), reads_old=True),
    Kind("0.16", _ALONE, has=("epsilon_low",), lacks=("loss_type",), loss_type="bnpo", reads_old=True),
    Kind("0.15", _ALONE, lacks=_NO_CHOICE, loss_type="grpo", reads_reference=True),
    Kind("0.14", None, lacks=_NO_CHOICE, loss_type="grpo", reads_reference=True),
)

IN_EVERY = ("args", "model", "accelerator", "beta", "compute_loss", "_metrics")


def lacking(trainer: Any) -> list[str]:
    """What every release has, and the trainer has not."""
    return [name for name in IN_EVERY if not hasattr(trainer, name)]


def kind_of(trainer: Any) -> Kind | None:
    """The kind that a trainer is of, or None where it is of none."""
    return next((kind for kind in KINDS if kind.fits(trainer)), None)
