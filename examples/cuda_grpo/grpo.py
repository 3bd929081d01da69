"""The compiled GRPO loss for training: the operator with its autograd formula and its fake implementation.

Build the library first, with `python build.py`; it is loaded when this module is imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LIBRARY = Path(__file__).parent / "build" / "libgrpo.so"
if not LIBRARY.exists():
    raise ImportError(f"no {LIBRARY}: build it with `python {LIBRARY.parents[1] / 'build.py'}`")
torch.ops.load_library(LIBRARY)
_OPERATOR = torch.ops.lossgate_example.grpo_loss
_CONSTANTS = (None,) * (len(_OPERATOR.default._schema.arguments) - 1)


def grpo_loss(
    logps: Tensor,
    old_logps: Tensor | None,
    ref_logps: Tensor | None,
    advantages: Tensor,
    mask: Tensor,
    loss_type: str = "grpo",
    beta: float = 0.0,
    epsilon_low: float = 0.2,
    epsilon_high: float = 0.2,
    delta: float | None = None,
    max_completion_length: int = 256,
) -> Tensor:
    """The loss of a batch, shape (), differentiable by `logps` once; every other argument is a constant.

    * `logps`, `old_logps`, `ref_logps`: (B, T), of one dtype; `old_logps` None is on-policy, `ref_logps` is read
      where `beta` is not 0; `advantages`: (B,) or (B, T), of the same dtype; `mask`: bool (B, T), whatever stands
      at masked positions is not read.
    * `loss_type`: grpo, bnpo, dr_grpo or dapo; dapo is that of one process without gradient accumulation.

    float64 and float32 are computed in themselves; bfloat16 and float16 in float32, and the loss stays float32.
    Raises `NotImplementedError` for another `loss_type`, `TypeError` for a dtype and `ValueError` for a shape or a
    number that does not fit.
    """
    arguments = (logps, old_logps, ref_logps, advantages, mask)
    options = (loss_type, beta, epsilon_low, epsilon_high, delta, max_completion_length)
    loss: Tensor = _OPERATOR(*arguments, *options)[0]
    return loss


@torch.library.register_fake("lossgate_example::grpo_loss")  # type: ignore[untyped-decorator] # torch is not followed
def _fake(logps: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    wide = torch.float64 if logps.dtype == torch.float64 else torch.float32
    return logps.new_empty((), dtype=wide), logps.new_empty(logps.shape)


def _keep_grad(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ARG001 # given by name
    grad = output[1]
    ctx.mark_non_differentiable(grad)
    ctx.save_for_backward(grad)


@once_differentiable  # type: ignore[untyped-decorator] # torch is not followed
def _backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    (grad,) = ctx.saved_tensors
    return (grad * grad_output, *_CONSTANTS)


torch.library.register_autograd("lossgate_example::grpo_loss", _backward, setup_context=_keep_grad)
