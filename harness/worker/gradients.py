"""The loss in what a callable returned, and the gradient where it brings its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from .target import Answer


def answer_in(result: Any, logps: Tensor, has_autograd: bool = True) -> Answer:
    """The answer in a loss, a tuple or list that begins with it, or a mapping that has it as "loss".

    The second element is the gradient if it is a floating-point tensor of the shape of `logps` `(B, T)` and the
    loss carries no graph. `has_autograd` False: a graph that the loss carries is not its author's.
    """
    loss, second = _parts(result)
    if not isinstance(loss, Tensor):
        return Answer(loss)
    graph = _has_graph(loss)
    fits = isinstance(second, Tensor) and second.is_floating_point() and second.shape == logps.shape
    if fits and not (graph and has_autograd):
        return Answer(loss.detach(), second.detach())
    return Answer(loss if graph else loss.detach())


def _parts(result: Any) -> tuple[Any, Any]:
    if isinstance(result, Mapping) and "loss" in result:
        return result["loss"], None
    if isinstance(result, (tuple, list)) and result:
        return result[0], result[1] if len(result) > 1 else None
    return result, None


def _has_graph(loss: Tensor) -> bool:
    """Whether autograd can go through a loss: torch marks what an operator without autograd returns, too."""
    if not loss.requires_grad or loss.grad_fn is None:
        return bool(loss.requires_grad)
    name: str = loss.grad_fn.name()
    return not name.endswith("WarnNotImplemented")
