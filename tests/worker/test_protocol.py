"""Messages arrive as they were sent, or are refused."""

from __future__ import annotations

import io
import math
import struct

import pytest

from harness.worker.protocol import FLOAT64, UINT8, ProtocolError, Tensor, pack, read_message, write_all

NUMBERS = struct.pack("<6d", 0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -1.0)
TENSORS = (Tensor("logps", FLOAT64, (2, 3), NUMBERS), Tensor("mask", UINT8, (2, 3), b"\1\0\1\1\0\0"))


def test_a_message_arrives_whole_however_little_is_read_at_a_time() -> None:
    """Pipes give back what is there, down to a byte."""
    stream = io.BytesIO(pack({"request": "case"}, TENSORS) + pack({"request": "close"}))
    first = read_message(lambda size: stream.read(min(size, 1)))
    assert first is not None
    assert first.header["request"] == "case"
    for tensor in TENSORS:
        place = first.places[tensor.name]
        assert (place.kind, place.shape, place.count) == (tensor.kind, (2, 3), 6)
        assert first.payload[place.offset : place.offset + len(tensor.data)] == tensor.data
    second = read_message(stream.read)
    assert second is not None
    assert second.header["request"] == "close"
    assert read_message(stream.read) is None


@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, math.inf, math.nan])
def test_a_number_in_the_header_keeps_its_bits(value: float) -> None:
    """A loss travels in the header, and is judged to the last bit."""
    message = read_message(io.BytesIO(pack({"loss": value})).read)
    assert message is not None
    assert struct.pack("<d", message.header["loss"]) == struct.pack("<d", value)


def test_a_message_is_written_whole_however_little_is_written_at_a_time() -> None:
    """A full pipe takes a part of what it is given, or nothing for a while."""
    arrived = bytearray()

    def write(part: memoryview) -> int:
        count = len(arrived) % 3
        arrived.extend(part[: max(count, 1)])
        return max(count, 1)

    data = pack({"request": "case"}, TENSORS)
    write_all(write, data)
    assert arrived == data


def test_a_message_cut_short_is_refused_wherever_it_is_cut() -> None:
    """Half an answer must never be taken for one."""
    data = pack({"request": "case"}, TENSORS)
    for size in range(1, len(data)):
        with pytest.raises(ProtocolError, match="cut short"):
            read_message(io.BytesIO(data[:size]).read)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"Loading weights: 100%|####|", "where a message begins"),
        (pack({}, [Tensor("loss", FLOAT64, (2,), b"1234")]), "not as long as its tensors"),
        (pack({}, [Tensor("loss", "float8", (2,), b"12")]), "the header does not hold"),
        (pack({}).replace(b"{", b"["), "the header does not hold"),
    ],
)
def test_what_is_no_message_is_refused(data: bytes, says: str) -> None:
    """Something else than a message on the pipe is told apart from a message."""
    with pytest.raises(ProtocolError, match=says):
        read_message(io.BytesIO(data).read)
