"""Messages between lossgate and the process a target runs in, used by both sides.

A message is a prefix (magic, header length, payload length), a JSON header and a raw payload. Its tensors are
listed in the header as [name, kind, shape] and lie in the payload one after the other, little-endian and in
row-major order: floats always as float64, which holds the numbers of every smaller dtype exactly; a mask as
uint8. Numbers in the header are JSON numbers, which round-trip to the bit.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

PROTOCOL_VERSION = 1

FLOAT64 = "float64"
UINT8 = "uint8"
ITEM_SIZES = {FLOAT64: 8, UINT8: 1}

_MAGIC = b"LGW1"
_PREFIX = struct.Struct("<4sIQ")
_LARGEST_HEADER = 64 * 2**20
_READ_AT_ONCE = 2**20

Read = Callable[[int], bytes]
"""Reads at least one byte and at most so many; no bytes mean the end."""

Write = Callable[[memoryview], int]
"""Writes some of the bytes and returns how many."""


class ProtocolError(ValueError):
    """What arrived is no message, or only a part of one."""


class Tensor(NamedTuple):
    """A tensor as it travels."""

    name: str
    kind: str
    shape: Sequence[int]
    data: bytes | bytearray


@dataclass(frozen=True)
class Place:
    """Where a tensor lies in the payload: `count` items from byte `offset`."""

    kind: str
    shape: tuple[int, ...]
    offset: int
    count: int


@dataclass(frozen=True)
class Message:
    """A header and the tensors that came with it."""

    header: dict[str, Any]
    payload: bytearray
    places: dict[str, Place]


def pack(header: dict[str, Any], tensors: Sequence[Tensor] = ()) -> bytes:
    """A message as bytes."""
    listed = [[tensor.name, tensor.kind, list(tensor.shape)] for tensor in tensors]
    text = json.dumps({**header, "tensors": listed}, separators=(",", ":")).encode()
    size = sum(len(tensor.data) for tensor in tensors)
    prefix = _PREFIX.pack(_MAGIC, len(text), size)
    return b"".join([prefix, text, *(tensor.data for tensor in tensors)])


def write_all(write: Write, data: bytes) -> None:
    """Write all of `data`, however little `write` takes at a time."""
    left = memoryview(data)
    while left:
        left = left[write(left) :]


def read_message(read: Read) -> Message | None:
    """The next message; None when the other side closed before one began.

    Raises `ProtocolError` when it is cut short or malformed.
    """
    prefix = _take(read, _PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < _PREFIX.size:
        raise ProtocolError("the message is cut short")
    magic, header_size, payload_size = _PREFIX.unpack(prefix)
    if magic != _MAGIC or header_size > _LARGEST_HEADER:
        raise ProtocolError(f"got {bytes(prefix)!r} where a message begins")
    text = _take(read, header_size)
    payload = _take(read, payload_size)
    if len(text) < header_size or len(payload) < payload_size:
        raise ProtocolError("the message is cut short")
    try:
        header = json.loads(text)
        places = _places(header["tensors"])
    except (ValueError, TypeError, KeyError) as error:
        raise ProtocolError(f"the header does not hold: {error!r}") from None
    if sum(place.count * ITEM_SIZES[place.kind] for place in places.values()) != payload_size:
        raise ProtocolError("the payload is not as long as its tensors")
    return Message(header, payload, places)


def _take(read: Read, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        chunk = read(min(size - len(data), _READ_AT_ONCE))
        if not chunk:
            break
        data += chunk
    return data


def _places(listed: list[Any]) -> dict[str, Place]:
    places = {}
    offset = 0
    for name, kind, shape in listed:
        count = 1
        for size in shape:
            count *= size
        places[name] = Place(kind, tuple(shape), offset, count)
        offset += count * ITEM_SIZES[kind]
    return places
