"""What the worker does with a request."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from . import evaluation, pins, protocol
from .execution import Execution
from .registry import open_target
from .target import Target, Unavailable


class Service:
    """Opens a target and answers cases with it."""

    def __init__(self) -> None:
        # Also seeds devices that are initialised later.
        torch.manual_seed(pins.SEED)
        self._target: Target | None = None
        self._execution: Execution | None = None

    def answer(self, request: protocol.Message) -> bytes:
        """The answer to an `open` or a `case` request."""
        if request.header["request"] == "open":
            return self._open(request.header["target"], request.header["options"])
        if self._target is None:
            raise protocol.ProtocolError("a case came before a target was opened")
        return evaluation.answer(self._target, request, self._execution)

    def _open(self, name: str, options: Mapping[str, str]) -> bytes:
        pins.restore()
        try:
            _check_device(options.get("device", "cpu"))
            self._target = open_target(name, options)
            facts = self._target.facts
            self._execution = Execution.asked_for(options)
            if self._execution is not None:
                self._execution.prepare(self._target)
        except Unavailable as failure:
            return _unavailable(failure.kind, str(failure), failure.hint, failure.__cause__)
        # An import may run anything, and raise anything, SystemExit included.
        except BaseException as error:
            return _unavailable("broken", f"{name} does not start: it {evaluation.sentence(error)}", "", error)
        changed = pins.restore()
        return protocol.pack({"status": "ok", **facts, "replaced": [*facts["replaced"], *changed]})


def _check_device(name: str) -> None:
    """Raises `Unavailable` where torch knows no such device, or has none here."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        why = f"no device is called {name!r}: {evaluation.one_line(str(error))}"
        raise Unavailable("unknown", why) from None
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = evaluation.one_line(str(error))
        why = f"no device {name!r} for torch {torch.__version__} here: {reason}"
        raise Unavailable("execution", why) from None


def _unavailable(kind: str, message: str, hint: str, cause: BaseException | None) -> bytes:
    return protocol.pack(
        {
            "status": "unavailable",
            "kind": kind,
            "message": message,
            "hint": hint,
            "traceback": "" if cause is None else evaluation.tail(cause),
        }
    )
