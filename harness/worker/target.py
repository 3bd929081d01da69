"""What an adapter is: the interface between the worker and an implementation under test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable

import torch
from torch import Tensor

from .source import Source

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo", "gmpo")
LEVELS = ("token", "sequence")
OPTIONS = (
    "beta",
    "old_logps",
    "token_advantages",
    "delta",
    "k3_bias_corrected",
    "k1",
    "k2",
    "importance_ratio",
    "off_policy_mask",
    "split",
)
DTYPES = ("float64", "float32", "bfloat16", "float16")


class Unsupported(Exception):
    """The target says that it cannot do this case; the text is the reason."""


class Unavailable(Exception):
    """A target cannot be opened.

    `kind` is "not_installed", "unknown" (no such target, or used wrongly), "execution" (it cannot run so here) or
    "broken" (its import or its set-up raised); `hint` is what to do about it, a command where there is one.
    """

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.hint = hint


@dataclass(frozen=True)
class Spec:
    """Which loss, with which hyper-parameters: the fields of the case's loss spec."""

    loss_type: str
    importance_sampling_level: str
    beta: float
    epsilon_low: float
    epsilon_high: float
    max_completion_length: int
    delta: float | None = None
    off_policy_mask_threshold: float | None = None
    kl_estimator: str = "k3"
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    conventions: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Split:
    """How the batch is cut into micro-batches; all three numbers are 1 where it is judged in one piece.

    Rows are ordered by rank, then by micro-batch. `mode` is "train" or "eval"; in eval each rank has its rows in
    one piece.
    """

    ranks: int = 1
    accumulation_steps: int = 1
    steps_per_generation: int = 1
    mode: str = "train"

    def judged(self, rows: int) -> list[list[slice]]:
        """The rows of each micro-batch whose losses make up the judged step, per rank."""
        pieces = 1 if self.mode == "eval" else self.steps_per_generation
        count = 1 if self.mode == "eval" else self.accumulation_steps
        size = rows // (self.ranks * pieces)
        return [
            [slice(first + k * size, first + (k + 1) * size) for k in range(count)]
            for first in range(0, rows, size * pieces)
        ]


@dataclass(frozen=True, eq=False)
class TensorCase:
    """A case as tensors of one dtype on one device.

    `logps (B, T)` is the leaf that is differentiated; `old_logps` is None in the on-policy form and
    `ref_logps` where there is none, else `(B, T)`; `advantages` is `(B,)` or `(B, T)`; `mask (B, T)` is bool;
    `sampling_logps (B, T)` and `importance_ratio`, `(B, T)` or `(B, 1)`, are None where there are none.
    """

    dtype: torch.dtype
    device: torch.device
    logps: Tensor
    old_logps: Tensor | None
    ref_logps: Tensor | None
    advantages: Tensor
    mask: Tensor
    spec: Spec
    split: Split
    sampling_logps: Tensor | None = None
    importance_ratio: Tensor | None = None

    def rows(self, part: slice) -> TensorCase:
        """Some of the rows, on the same graph, in one piece."""
        cut = {name: tensor[part] for name, tensor in self.tensors.items()}
        return replace(self, split=Split(), **cut)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        named = {
            "logps": self.logps,
            "old_logps": self.old_logps,
            "ref_logps": self.ref_logps,
            "advantages": self.advantages,
            "mask": self.mask,
            "sampling_logps": self.sampling_logps,
            "importance_ratio": self.importance_ratio,
        }
        return {name: tensor for name, tensor in named.items() if tensor is not None}


@dataclass(frozen=True)
class Support:
    """What a target takes.

    `options` names what a case may have beyond the bare loss, those of `OPTIONS`.
    """

    loss_types: tuple[str, ...] = LOSS_TYPES
    levels: tuple[str, ...] = LEVELS
    dtypes: tuple[str, ...] = DTYPES
    options: tuple[str, ...] = ()

    def refusal(self, case: TensorCase) -> str | None:
        """Why a case is not supported, or None when it is."""
        spec = case.spec
        named = (
            ("loss_type", spec.loss_type, self.loss_types),
            ("importance_sampling_level", spec.importance_sampling_level, self.levels),
            ("dtype", str(case.dtype).replace("torch.", ""), self.dtypes),
        )
        for what, value, taken in named:
            if value not in taken:
                return f"{what} {value!r} is not supported, takes {', '.join(taken) or 'none'}"
        estimator = spec.kl_estimator if spec.beta != 0 else "k3"
        needed = (
            ("beta", spec.beta != 0, f"a KL term (beta {spec.beta:g})"),
            ("old_logps", case.old_logps is not None, "old_logps (an off-policy batch)"),
            ("token_advantages", case.advantages.dim() == 2, "advantages of shape (B, T)"),
            ("delta", spec.delta is not None, "delta (a second upper bound of the ratio)"),
            (estimator, estimator != "k3", f"a KL term of estimator {estimator}"),
            ("importance_ratio", case.importance_ratio is not None, "an importance ratio"),
            ("off_policy_mask", spec.off_policy_mask_threshold is not None, "the off-policy sequence mask"),
            ("split", case.split != Split(), "a batch split over ranks or accumulation steps"),
        )
        for option, is_needed, what in needed:
            if is_needed and option not in self.options:
                return f"{what} is not supported"
        return None


@dataclass(frozen=True, eq=False)
class Answer:
    """What a target computed: the loss and, where it brings its own, the gradient d loss / d logps `(B, T)`.

    Without a gradient, the loss is attached to the case's `logps`, and autograd finds it.
    """

    loss: Tensor
    gradient: Tensor | None = None


class Target(ABC):
    """An implementation under test.

    `label` names it with its version; `conventions` are what it settles of what papers leave open, by the names of
    `cases/conventions.py`; `conventions_by_loss` has what is otherwise for one loss ("cispo"), or for one loss at
    one level ("grpo/sequence"); `replaced` says in words what of the library does not run as its users run it;
    `source` is where the loss is written, if that is known.
    """

    label: str
    versions: Mapping[str, str]
    supports: Support
    conventions: Mapping[str, Any]
    conventions_by_loss: Mapping[str, Mapping[str, Any]] = {}
    replaced: tuple[str, ...] = ()
    source: Source | None = None

    def refusal(self, case: TensorCase) -> str | None:
        """Why a case is not supported, or None when it is; asked before `loss`."""
        return self.supports.refusal(case)

    @abstractmethod
    def loss(self, case: TensorCase) -> Tensor:
        """The loss of a case, attached to `case.logps`.

        Raises `Unsupported` when it turns out only now that the target cannot do it.
        """

    def answer(self, case: TensorCase) -> Answer:
        """What is judged; a target with a hand-written gradient returns it here.

        Raises what `loss` raises.
        """
        return Answer(self.loss(case))

    def compile(self, _wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Have the library's own call go through what a function makes of it, from now on.

        Raises `Unavailable` where it is not known which call that is.
        """
        raise Unavailable("execution", f"which call of {self.label} a compiler is to be given is not known")

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of the target without asking it anything, as JSON."""
        return {
            "label": self.label,
            "versions": dict(self.versions),
            "supports": {
                "loss_types": self.supports.loss_types,
                "levels": self.supports.levels,
                "dtypes": self.supports.dtypes,
                "options": self.supports.options,
            },
            "conventions": dict(self.conventions),
            "conventions_by_loss": {loss: dict(own) for loss, own in self.conventions_by_loss.items()},
            "replaced": self.replaced,
            "source": None if self.source is None else {"file": self.source[0], "line": self.source[1]},
        }
