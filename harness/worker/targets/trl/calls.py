"""How a trainer is asked for its loss of given log-probabilities."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, Callable

import torch
from torch import Tensor

from ...source import Source, source_of
from ...target import TensorCase, Unavailable
from .features import LOGPS_METHODS, Kind
from .inline import NoSlice, statements_from

_INNER = "_compute_loss"


class Call(ABC):
    """One way of asking.

    `replaced` says what of the trainer does not run as its users run it; `source`, where the loss is written.
    """

    replaced: tuple[str, ...]
    source: Source | None

    @abstractmethod
    def loss(self, case: TensorCase, tokens: Tensor) -> Tensor:
        """The loss of one micro-batch, as the trainer returns it.

        `tokens`: unmasked tokens of the whole generation batch, on all ranks.
        """

    @abstractmethod
    def compile(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        """Have the method in which the loss is written go through what `wrap` makes of it."""


class ComputeLoss(Call):
    """The public `compute_loss`; the trainer's method for log-probabilities returns the case's."""

    def __init__(self, trainer: Any, kind: Kind) -> None:
        self._trainer = trainer
        self._kind = kind
        self.source = source_of(_driven(type(trainer)))
        self._logps: Tensor | None = None
        self._reference: Tensor | None = None
        # Where the reference model is asked inside the loss, it is asked by the same method.
        self._reference_model = trainer.ref_model = object()
        setattr(trainer, str(kind.scores), self._scores)
        self._with_entropies = kind.scores == LOGPS_METHODS[0]
        entropies = ", with entropies of 0" if self._with_entropies else ""
        self.replaced = (f"{type(trainer).__name__}.{kind.scores} returns the case's logps{entropies}",)

    def loss(self, case: TensorCase, tokens: Tensor) -> Tensor:
        self._logps, self._reference = case.logps, case.ref_logps
        try:
            loss: Tensor = self._trainer.compute_loss(self._trainer.model, self._inputs(case, tokens))
        finally:
            self._logps = self._reference = None
        return loss

    def compile(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        name = _driven(type(self._trainer)).__name__
        setattr(self._trainer, name, wrap(getattr(self._trainer, name)))

    def _scores(self, model: object, *_inputs: object, **options: object) -> Any:
        """In place of the log-probability method: what it returns, in the form that this call asks for."""
        logps = self._reference if model is self._reference_model else self._logps
        if not self._with_entropies or logps is None:
            return logps
        entropies = torch.zeros_like(logps, requires_grad=False)
        return (logps, entropies, None) if "compute_aux_loss" in options else (logps, entropies)

    def _inputs(self, case: TensorCase, tokens: Tensor) -> dict[str, Tensor | None]:
        """A micro-batch as TRL's own data collation would hand it to the loss; the prompt is one token."""
        rows, columns = case.mask.shape
        ratio = case.importance_ratio
        if ratio is not None and case.spec.loss_type == "vespo":
            ratio = torch.where(case.mask, ratio, torch.ones_like(ratio))
        inputs: dict[str, Tensor | None] = {
            "prompt_ids": torch.zeros((rows, 1), dtype=torch.long, device=case.device),
            "prompt_mask": torch.ones((rows, 1), dtype=torch.long, device=case.device),
            "completion_ids": torch.zeros((rows, columns), dtype=torch.long, device=case.device),
            "completion_mask": case.mask.long(),
            "advantages": case.advantages,
            "num_items_in_batch": tokens,
        }
        optional = {
            "old_per_token_logps": case.old_logps,
            "ref_per_token_logps": _reference(case, self._kind),
            "sampling_per_token_logps": case.sampling_logps,
            "importance_sampling_ratio": ratio,
        }
        inputs.update({name: tensor for name, tensor in optional.items() if tensor is not None})
        if self._kind.reads_old:
            inputs.setdefault("old_per_token_logps", None)
        return inputs


def _driven(trainer_class: Any) -> Any:
    """The method that the loss is written in: the one that `compute_loss` hands on to where it does, or itself."""
    public = trainer_class.compute_loss
    code = getattr(inspect.unwrap(public), "__code__", None)
    hands_on = code is not None and _INNER in code.co_names and hasattr(trainer_class, _INNER)
    return getattr(trainer_class, _INNER) if hands_on else public


def _reference(case: TensorCase, kind: Kind) -> Tensor | None:
    """What the reference model's log-probabilities are taken to be."""
    return case.logps.detach() if case.ref_logps is None and kind.reads_reference else case.ref_logps


class EndOfComputeLoss(Call):
    """The end of a `compute_loss` that samples completions, rewards them and takes their loss."""

    _GIVEN = ("per_token_logps", "ref_per_token_logps", "completion_mask", "advantages")

    def __init__(self, trainer: Any, kind: Kind) -> None:
        name = f"{type(trainer).__name__}.compute_loss"
        try:
            self._loss = statements_from(type(trainer).compute_loss, self._GIVEN)
        except NoSlice as reason:
            raise Unavailable(
                "broken", f"{name} samples and scores too, and its loss cannot be cut out: {reason}"
            ) from None
        self._trainer = trainer
        self._kind = kind
        self.source = source_of(type(trainer).compute_loss)
        self.replaced = (
            f"{name} samples, rewards and takes the loss in one: of its statements, only those run that make the "
            f"loss of {', '.join(self._GIVEN[:-1])} and {self._GIVEN[-1]}, which are the case's",
        )

    def compile(self, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._loss = wrap(self._loss)

    def loss(self, case: TensorCase, _tokens: Tensor) -> Tensor:
        # The release's own mask is of int.
        mask = case.mask.int()
        loss: Tensor = self._loss(self._trainer, case.logps, _reference(case, self._kind), mask, case.advantages)
        return loss
