"""One case: the target's loss and its gradient, with every way it can go wrong told apart."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from . import limits, pins, protocol
from .execution import Execution
from .target import Target, TensorCase, Unsupported
from .tensors import Inputs, case_from, packed

_TRACEBACK_CHARACTERS = 2000
_SENTENCE_CHARACTERS = 300


class NotALoss(Exception):
    """What the target did is no answer; the text continues a sentence that begins with the target."""


def answer(target: Target, request: protocol.Message, execution: Execution | None = None) -> bytes:
    """The outcome of a case as a message; whatever the target raises becomes one.

    It has what `execution` reports of the case, where there is one.
    """
    began = time.perf_counter()
    pins.restore(request.header["seed"])
    printed_before = _printed()
    tensors: list[protocol.Tensor] = []
    try:
        outcome, gradient = _evaluate(target, case_from(request))
        tensors.append(packed("gradient", gradient))
    except Unsupported as refusal:
        outcome = {"status": "unsupported", "message": one_line(str(refusal))}
    except NotALoss as reason:
        outcome = {"status": "error", "message": str(reason)}
    # SystemExit and KeyboardInterrupt too: a target must not end the process that judges it.
    except BaseException as error:
        outcome = {"status": "error", "message": sentence(error), "traceback": tail(error)}
    outcome["notes"] = pins.restore()
    if outcome["status"] == "error":
        outcome["printed"] = printed_before, _printed()
    if execution is not None:
        outcome["execution"] = execution.report()
    outcome["number"] = request.header["number"]
    outcome["busy"] = time.perf_counter() - began
    return protocol.pack(outcome, tensors)


def _evaluate(target: Target, case: TensorCase) -> tuple[dict[str, Any], Tensor]:
    refusal = target.refusal(case)
    if refusal is not None:
        raise Unsupported(refusal)
    inputs = Inputs(case)

    start = _now(case)
    given = target.answer(case)
    seconds = _now(case) - start
    loss, gradient = given.loss, given.gradient
    _check_loss(loss, gradient)
    if inputs.were_written:
        # Before autograd notices it in words of its own.
        _check_inputs(inputs)
    if gradient is None:
        start = _now(case)
        (gradient,) = torch.autograd.grad(loss, case.logps, allow_unused=True)
        seconds += _now(case) - start
    _check_inputs(inputs)
    if gradient is None:
        gradient = torch.zeros_like(case.logps)
    if gradient.shape != case.logps.shape:
        raise NotALoss(f"gave a gradient of shape {tuple(gradient.shape)} for logps of {tuple(case.logps.shape)}")
    outcome = {
        "status": "ok",
        "loss": loss.item(),
        "loss_dtype": str(loss.dtype).replace("torch.", ""),
        "seconds": seconds,
    }
    return outcome, gradient


def _printed() -> int:
    """How long the file is that this process prints to; 0 where the target has closed it."""
    with contextlib.suppress(OSError):
        return os.fstat(2).st_size
    return 0


def _now(case: TensorCase) -> float:
    if case.device.type == "cuda":
        torch.cuda.synchronize(case.device)
    return time.perf_counter()


def _check_loss(loss: object, gradient: Tensor | None) -> None:
    if not isinstance(loss, Tensor):
        raise NotALoss(f"returned {_article(type(loss).__name__)} where a tensor is needed")
    if loss.dim() != 0:
        raise NotALoss(f"returned a tensor of shape {tuple(loss.shape)} where one number, shape (), is needed")
    if not loss.is_floating_point():
        raise NotALoss(f"returned a loss of {loss.dtype}, which is no floating-point type")
    if gradient is None and not loss.requires_grad:
        raise NotALoss(
            "returned a loss that is detached: it has no gradient with respect to logps, "
            "nor is there a tensor of their shape beside it that could be it"
        )


def _check_inputs(inputs: Inputs) -> None:
    name = inputs.changed
    if name is not None:
        raise NotALoss(f"changed its input '{name}' in place")


def _article(noun: str) -> str:
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def one_line(text: str) -> str:
    """Text as one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _SENTENCE_CHARACTERS else line[: _SENTENCE_CHARACTERS - 4] + " ..."


def sentence(error: BaseException) -> str:
    """What was raised, in one line."""
    try:
        text = one_line(str(error))
    # An exception's own __str__ may raise.
    except Exception:
        text = ""
    raised = f"raised {type(error).__name__}{': ' if text else ''}{text}"
    limit = limits.exceeded(error)
    return f"{limit}; it {raised}" if limit else raised


def tail(error: BaseException) -> str:
    """The end of the traceback, from the first frame that is not the worker's own."""
    place: TracebackType | None = error.__traceback__
    while place is not None and str(place.tb_frame.f_globals.get("__package__")).startswith(_OURS):
        place = place.tb_next
    text = "".join(traceback.format_exception(type(error), error, place or error.__traceback__))
    if len(text) <= _TRACEBACK_CHARACTERS:
        return text.rstrip()
    return "...\n" + text[-_TRACEBACK_CHARACTERS:].split("\n", 1)[-1].rstrip()


_OURS = __name__.rpartition(".")[0]
