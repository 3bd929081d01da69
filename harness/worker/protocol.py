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
from typing import Any, NamedTuple

PROTOCOL_VERSION = 2

EXIT_DISCONNECTED = 97
"""Exit status of a worker whose end of a pipe was closed under it."""

FLOAT64 = "float64"
UINT8 = "uint8"
ITEM_SIZES = {FLOAT64: 8, UINT8: 1}

_MAGIC = b"LGW1"
_PREFIX = struct.Struct("<4sIQ")
_LARGEST_HEADER = 64 * 2**20
_AHEAD = 2**13
_READ_AT_ONCE = 2**20
_ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)
_DECODER = json.JSONDecoder()

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
    shape: tuple[int, ...]
    data: bytes | bytearray


class Place(NamedTuple):
    """Where a tensor lies in the payload: `items` numbers from byte `offset`."""

    kind: str
    shape: tuple[int, ...]
    offset: int
    items: int


class Message(NamedTuple):
    """A header and the tensors that came with it."""

    header: dict[str, Any]
    payload: bytearray
    places: dict[str, Place]


def pack(header: dict[str, Any], tensors: Sequence[Tensor] = ()) -> bytes:
    """A message as bytes."""
    listed: list[Any] = []
    payload = []
    size = 0
    for name, kind, shape, data in tensors:
        listed.append((name, kind, shape))
        payload.append(data)
        size += len(data)
    text = _ENCODER.encode({**header, "tensors": listed}).encode()
    return b"".join((_PREFIX.pack(_MAGIC, len(text), size), text, *payload))


def write_all(write: Write, data: bytes) -> None:
    """Write all of `data`, however little `write` takes at a time."""
    left = memoryview(data)
    while left:
        left = left[write(left) :]


def read_message(read: Read, left_over: bytearray | None = None) -> Message | None:
    """The next message; None when the other side closed before one began.

    With `left_over`, a small message takes one read; what is read beyond its end stays there and begins the next.

    Raises `ProtocolError` when it is cut short or malformed.
    """
    data, ahead = (bytearray(), 0) if left_over is None else (left_over, _AHEAD)
    if not _fill(data, read, _PREFIX.size, ahead) and not data:
        return None
    if len(data) < _PREFIX.size:
        raise ProtocolError("the message is cut short")
    magic, header_size, payload_size = _PREFIX.unpack_from(data)
    if magic != _MAGIC or header_size > _LARGEST_HEADER:
        raise ProtocolError(f"got {bytes(data[: _PREFIX.size])!r} where a message begins")
    begin = _PREFIX.size + header_size
    end = begin + payload_size
    if not _fill(data, read, end, ahead):
        raise ProtocolError("the message is cut short")
    text, payload = data[_PREFIX.size : begin], data[begin:end]
    del data[:end]
    try:
        header, _ = _DECODER.raw_decode(text.decode())
        places, listed_size = _places(header["tensors"])
    except (ValueError, TypeError, KeyError) as error:
        raise ProtocolError(f"the header does not hold: {error!r}") from None
    if listed_size != payload_size:
        raise ProtocolError("the payload is not as long as its tensors")
    return Message(header, payload, places)


def _fill(data: bytearray, read: Read, size: int, ahead: int) -> bool:
    """Read until there are `size` bytes, up to `ahead` at a time even if fewer are missing; whether there are."""
    while len(data) < size:
        chunk = read(max(ahead, min(size - len(data), _READ_AT_ONCE)))
        if not chunk:
            return False
        data += chunk
    return True


def _places(listed: list[Any]) -> tuple[dict[str, Place], int]:
    """Where the tensors lie, and how many bytes they take together."""
    places = {}
    offset = 0
    for name, kind, shape in listed:
        count = 1
        for size in shape:
            count *= size
        places[name] = Place(kind, tuple(shape), offset, count)
        offset += count * ITEM_SIZES[kind]
    return places, offset
