"""A case: the numbers and the loss they are fed to, with an id that is the hash of its content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from cases.batch import Batch
from cases.conventions import Conventions
from cases.dtypes import DTYPES
from cases.large import is_large
from cases.packed import packed, unpacked
from cases.spec import LossSpec
from cases.split import Split

FORMAT: Final = "lossgate-case/1"
ID_DIGITS: Final = 12

_TRAILING_ZEROS: Final = re.compile(r"\.?0*p")
_TENSORS: Final = ("logps", "old_logps", "ref_logps", "advantages", "sampling_logps", "importance_ratio")


class CaseFormatError(ValueError):
    """The text is not a case: empty, cut short, edited or of another format; the message says which."""


@dataclass(frozen=True)
class Case:
    """A batch, a loss spec and a split.

    Round-trips through `to_json` and `from_json` to the bit: tensors are written as hexadecimal floats, those of a
    large batch as compressed bytes.

    Raises `ValueError` when the spec needs a tensor that the batch lacks, or the rows cannot be split evenly.
    """

    batch: Batch
    spec: LossSpec
    split: Split = field(default_factory=Split)

    def __post_init__(self) -> None:
        if self.spec.beta > 0 and self.batch.ref_logps is None:
            raise ValueError(f"ref_logps: got None, takes a tensor when beta is not 0 (beta is {self.spec.beta})")
        parts = self.split.micro_batches
        if self.batch.rows % parts:
            raise ValueError(f"split: got {self.batch.rows} rows, takes a multiple of {parts} micro-batches")

    @cached_property
    def id(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 of the content.

        What is at its default does not enter, so that the id outlives fields that are added later.
        """
        batch = self.batch
        digest = hashlib.sha256(_head(batch.dtype.name, self.spec, self.split))
        for name in (*_TENSORS, "mask"):
            values = getattr(batch, name)
            if values is not None:
                digest.update(f"{name}{values.shape}".encode())
                digest.update(values.tobytes())
        return digest.hexdigest()[:ID_DIGITS]

    def to_json(self) -> str:
        """The case as JSON text, one row of a tensor a line."""
        batch: dict[str, Any] = {"dtype": self.batch.dtype.name}
        write: Callable[[Any], Any] = packed if is_large(self.batch) else _hex
        for name in _TENSORS:
            values = getattr(self.batch, name)
            batch[name] = None if values is None else write(values)
        mask = self.batch.mask
        batch["mask"] = packed(mask) if is_large(self.batch) else mask.astype(int).tolist()
        content = {
            "format": FORMAT,
            "id": self.id,
            "batch": batch,
            "spec": asdict(self.spec),
            "split": asdict(self.split),
        }
        return _one_row_a_line(json.dumps(content, indent=1)) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Case:
        """Read what `to_json` wrote.

        Raises `CaseFormatError` when the text is no case or its id does not match its content.
        """
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            what = "is empty" if not text.strip() else f"is not JSON, or was cut short ({error})"
            raise CaseFormatError(f"the case file {what}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise CaseFormatError(f'the file is no case of this format: it needs "format": "{FORMAT}"')
        try:
            case = cls(
                batch=_batch(_part(data, "batch")),
                spec=_spec(dict(_part(data, "spec"))),
                split=Split(**_known(Split, _part(data, "split"))),
            )
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise CaseFormatError(f"the case does not hold: {error}") from None
        if data.get("id") != case.id:
            raise CaseFormatError(
                f"the content has id {case.id}, the file says {data.get('id')!r}: it was edited; "
                f'write "id": "{case.id}" to make it a case of its own'
            )
        return case


@lru_cache(maxsize=4096)
def _head(dtype: str, spec: LossSpec, split: Split) -> bytes:
    """What is hashed before the tensors: many cases have it alike."""
    told = {"dtype": dtype, "spec": _told(spec), "split": _told(split)}
    return json.dumps(told, sort_keys=True).encode()


def _told(value: Any) -> Any:
    """A dataclass without the fields that are at their default."""
    if not is_dataclass(value):
        return value
    told = {}
    for entry in fields(value):
        default = entry.default if entry.default_factory is MISSING else entry.default_factory()
        held = getattr(value, entry.name)
        if held != default:
            told[entry.name] = _told(held)
    return told


def _hex(values: Any) -> Any:
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return [_hex(value) if isinstance(value, list) else _TRAILING_ZEROS.sub("p", value.hex()) for value in values]


def _unhex(name: str, values: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, dict):
        return unpacked(name, values)
    if isinstance(values, list):
        return [_unhex(name, value) for value in values]
    if not isinstance(values, str):
        raise ValueError(f"{name}: got {values!r}, takes hexadecimal floats such as {(0.1).hex()!r}")
    try:
        return float.fromhex(values)
    except (ValueError, OverflowError):
        raise ValueError(f"{name}: got {values!r}, takes hexadecimal floats such as {(0.1).hex()!r}") from None


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    part = data.get(name)
    if not isinstance(part, dict):
        raise ValueError(f"{name}: got {type(part).__name__}, takes an object")
    return part


def _known(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    names = {entry.name for entry in fields(kind)}
    for name in values:
        if name not in names:
            raise ValueError(f"{name}: unknown, takes {', '.join(sorted(names))}")
    return values


def _batch(data: dict[str, Any]) -> Batch:
    values = dict(_known(Batch, data))
    missing = [entry.name for entry in fields(Batch) if entry.name not in values]
    if missing:
        raise ValueError(f"batch: lacks {', '.join(missing)}")
    if not isinstance(values["dtype"], str) or values["dtype"] not in DTYPES:
        raise ValueError(f"dtype: got {values['dtype']!r}, takes one of {', '.join(DTYPES)}")
    for name in _TENSORS:
        values[name] = _unhex(name, values[name])
    values["dtype"] = DTYPES[values["dtype"]]
    values["mask"] = _mask(values["mask"])
    return Batch(**values)


def _mask(rows: Any) -> Any:
    if isinstance(rows, dict):
        return unpacked("mask", rows)
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and all(type(bit) is int and bit in (0, 1) for bit in row) for row in rows
    ):
        raise ValueError("mask: takes a list of rows of 0 and 1")
    if len({len(row) for row in rows}) > 1:
        raise ValueError("mask: takes rows of equal length")
    return np.array(rows, dtype=bool)


def _spec(data: dict[str, Any]) -> LossSpec:
    conventions = data.pop("conventions", None)
    if not isinstance(conventions, dict):
        raise ValueError(f"conventions: got {conventions!r}, takes an object")
    return LossSpec(**_known(LossSpec, data), conventions=Conventions(**_known(Conventions, conventions)))


def _one_row_a_line(text: str) -> str:
    """Join the innermost lists, which `json.dumps` spreads over a line an element."""
    lines: list[str] = []
    open_list = False
    for line in text.split("\n"):
        stripped = line.strip()
        if open_list and not stripped.startswith(("[", "{")):
            lines[-1] += stripped + (" " if stripped.endswith(",") else "")
            open_list = not stripped.startswith("]")
        else:
            lines.append(line)
            open_list = stripped.endswith("[")
    return "\n".join(line.rstrip() for line in lines)
