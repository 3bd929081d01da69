"""What is asked of a target and what comes back, as values; and how they travel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from cases.case import Case
from cases.conventions import Conventions
from cases.dtypes import FloatArray
from cases.spec import LossSpec
from cases.split import Split
from harness.worker import protocol

Status = Literal["ok", "unsupported", "error", "crash", "timeout"]
FailureKind = Literal["not_installed", "unknown", "broken", "execution", "interpreter"]

_FLOATS: Final = ("logps", "old_logps", "ref_logps", "advantages", "sampling_logps", "importance_ratio")
_ALWAYS_SENT: Final = (
    "loss_type",
    "importance_sampling_level",
    "beta",
    "epsilon_low",
    "epsilon_high",
    "max_completion_length",
)
# Conventions are the judge's; what is asked of a target is the loss.
_NOT_SENT: Final = ("conventions",)
SPEC_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {field.name: field.default for field in fields(LossSpec) if field.name not in _ALWAYS_SENT + _NOT_SENT}
)
"""What is not sent where it is as usual, which the worker knows, too."""

SPLIT_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({field.name: field.default for field in fields(Split)})
"""The same of a split."""


class TargetUnavailable(RuntimeError):
    """A target did not start.

    `kind` is "not_installed", "unknown" (no such target, or used wrongly), "broken" (its import or set-up
    failed), "execution" (no such device or compiler) or "interpreter" (no Python to run it in); `hint` says
    what to do; `details` is the end of a traceback or of what was printed. Both may be empty.
    """

    def __init__(self, kind: FailureKind, message: str, hint: str = "", details: str = "") -> None:
        super().__init__(printable(message))
        self.kind: FailureKind = kind
        self.message = printable(message)
        self.hint = hint
        self.details = printable(details)

    def __reduce__(self) -> tuple[Any, ...]:
        # An exception is pickled by its args, which are fewer here than the arguments.
        return type(self), (self.kind, self.message, self.hint, self.details)

    @classmethod
    def from_header(cls, header: Mapping[str, Any]) -> TargetUnavailable:
        """The failure that a worker reports."""
        return cls(header["kind"], header["message"], header["hint"], header.get("traceback", ""))


@dataclass(frozen=True)
class TargetSupport:
    """What a target says it takes; `options` are those of `harness/worker/target.py`."""

    loss_types: tuple[str, ...]
    levels: tuple[str, ...]
    dtypes: tuple[str, ...]
    options: tuple[str, ...]


@dataclass(frozen=True)
class TargetSource:
    """Where a target's loss is written: an absolute path, and the line there that its definition begins with."""

    file: str
    line: int


@dataclass(frozen=True)
class TargetFacts:
    """What a target says of itself, and what it runs in; `source` is None where it does not know."""

    label: str
    versions: Mapping[str, str]
    supports: TargetSupport
    conventions: Conventions
    conventions_by_loss: Mapping[str, Conventions]
    replaced: tuple[str, ...]
    python: str
    torch: str
    platform: str
    source: TargetSource | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy cannot be pickled.
        plain: dict[str, Any] = {
            entry.name: dict(value) if isinstance(value := getattr(self, entry.name), Mapping) else value
            for entry in fields(self)
        }
        return partial(type(self), **plain), ()

    @classmethod
    def from_headers(cls, hello: Mapping[str, Any], opened: Mapping[str, Any]) -> TargetFacts:
        """The facts in a worker's answers to `hello` and `open`."""
        return cls(
            label=opened["label"],
            versions=MappingProxyType(opened["versions"]),
            supports=TargetSupport(**{name: tuple(taken) for name, taken in opened["supports"].items()}),
            conventions=Conventions(**opened["conventions"]),
            conventions_by_loss=MappingProxyType(
                {
                    loss: Conventions(**{**opened["conventions"], **own})
                    for loss, own in opened["conventions_by_loss"].items()
                }
            ),
            replaced=tuple(opened["replaced"]),
            python=hello["python"],
            torch=hello["torch"],
            platform=hello["platform"],
            source=None if opened["source"] is None else TargetSource(**opened["source"]),
        )

    def conventions_for(self, spec: LossSpec) -> Conventions:
        """What it settles of what the papers leave open of one loss at one level."""
        loss_type = str(spec.loss_type)
        at_level = self.conventions_by_loss.get(f"{loss_type}/{spec.importance_sampling_level}")
        return at_level or self.conventions_by_loss.get(loss_type, self.conventions)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a case.

    * `ok`: `loss` and `gradient` `(B, T)` (d loss / d logps) are there, finite or not.
    * `unsupported`, `error`: the target declined; it raised, or what it returned is no loss.
    * `crash`, `timeout`: its process died; it did not answer in time and was killed.

    The first line of `message` is one sentence whose subject is the target; a traceback and what the target
    printed may follow. `seconds` is the time of the loss and its gradient inside the target; for `crash` and
    `timeout`, how long an answer was waited for. `notes` say what the case left behind and was put right;
    `execution`, what an execution that was asked for reports of the case (`harness/worker/execution.py`).
    """

    status: Status
    loss: float | None = None
    gradient: FloatArray | None = None
    message: str = ""
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    loss_dtype: str | None = None
    execution: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_message(cls, answer: protocol.Message, printed: str) -> Outcome:
        """The outcome in a worker's answer to `case`; an error also shows what the target printed."""
        header = answer.header
        return cls(
            status=header["status"],
            loss=header.get("loss"),
            gradient=_array(answer, "gradient"),
            message=explained(header.get("message", ""), header.get("traceback", ""), printed),
            seconds=header.get("seconds", 0.0),
            notes=tuple(header["notes"]),
            loss_dtype=header.get("loss_dtype"),
            execution=header.get("execution", {}),
        )


def explained(sentence: str, traceback: str, printed: str) -> str:
    """A sentence, and below it what there is to explain it; nothing where there is no sentence."""
    if not sentence:
        return ""
    parts = [sentence]
    if traceback:
        parts.append(traceback)
    if printed:
        parts.append(f"it printed:\n{printed}")
    return printable("\n".join(parts))


def printable(text: str) -> str:
    """Text without control characters and broken ones, which a target may print and no terminal should get."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text)


def case_request(
    case: Case, device: str, instead: Mapping[str, FloatArray], attempt: int = 0, number: int = 0
) -> bytes:
    """The request that asks for the outcome of a case, with the tensors of `instead` in place of its own.

    Every case and every `attempt` has a random seed of its own: an answer that depends on it must show. `number`
    comes back with the answer.
    """
    batch = case.batch
    tensors = []
    for name in _FLOATS:
        array = instead.get(name, getattr(batch, name))
        if array is not None:
            data = array.astype("<f8", copy=False).tobytes()
            tensors.append(protocol.Tensor(name, protocol.FLOAT64, array.shape, data))
    tensors.append(protocol.Tensor("mask", protocol.UINT8, batch.mask.shape, batch.mask.tobytes()))
    header = {
        "request": "case",
        "number": number,
        "dtype": batch.dtype.name,
        "device": device,
        "seed": (int(case.id, 16) + attempt) % 2**31,
        "spec": {name: getattr(case.spec, name) for name in _ALWAYS_SENT} | _unusual(case.spec, SPEC_DEFAULTS),
        "split": _unusual(case.split, SPLIT_DEFAULTS),
    }
    return protocol.pack(header, tensors)


def _unusual(value: LossSpec | Split, defaults: Mapping[str, Any]) -> dict[str, Any]:
    # A small case has more numbers here than in its tensors, and must not cost more than they do.
    return {name: getattr(value, name) for name, usual in defaults.items() if getattr(value, name) != usual}


def _array(answer: protocol.Message, name: str) -> FloatArray | None:
    place = answer.places.get(name)
    if place is None:
        return None
    array = np.frombuffer(answer.payload, dtype="<f8", count=place.items, offset=place.offset)
    array.setflags(write=False)
    return array.reshape(place.shape)
