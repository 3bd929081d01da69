"""Messages arrive as they were sent, or are refused."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest

from cases import split
from cases.case import Case
from cases.spec import KLEstimator, LossSpec
from harness.outcome import SPEC_DEFAULTS, SPLIT_DEFAULTS, case_request
from harness.worker.protocol import FLOAT64, UINT8, ProtocolError, Tensor, pack, read_message, write_all
from harness.worker.target import Spec, Split

MakeCase = Callable[..., Case]

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
        assert (place.kind, place.shape, place.items) == (tensor.kind, (2, 3), 6)
        assert first.payload[place.offset : place.offset + len(tensor.data)] == tensor.data
    second = read_message(stream.read)
    assert second is not None
    assert second.header["request"] == "close"
    assert read_message(stream.read) is None


@pytest.mark.parametrize("size", [1, 20, 10**6])
def test_what_is_read_ahead_begins_the_next_message(size: int) -> None:
    """However much comes at once: a read may end within the next message, or two messages later."""
    messages = [pack({"number": number}, TENSORS) for number in range(3)]
    stream = io.BytesIO(b"".join(messages))
    left_over = bytearray()
    for number in range(3):
        message = read_message(lambda wanted: stream.read(min(size, wanted)), left_over)
        assert message is not None
        assert message.header["number"] == number
        assert message.payload == b"".join(tensor.data for tensor in TENSORS)
    assert read_message(stream.read, left_over) is None


@pytest.mark.parametrize("value", [0.1, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, math.inf, math.nan])
def test_a_number_in_the_header_keeps_its_bits(value: float) -> None:
    """A loss travels in the header, and is judged to the last bit."""
    message = read_message(io.BytesIO(pack({"loss": value})).read)
    assert message is not None
    assert struct.pack("<d", message.header["loss"]) == struct.pack("<d", value)


@pytest.mark.parametrize(("kind", "left_out"), [(Spec, SPEC_DEFAULTS), (Split, SPLIT_DEFAULTS)])
def test_what_a_request_leaves_out_is_the_same_on_both_sides(kind: Any, left_out: dict[str, Any]) -> None:
    """A number at its default is not sent: another default in the worker would be another case."""
    defaults = {field.name: field.default for field in fields(kind)}
    for name, value in left_out.items():
        assert defaults[name] == value, name


def test_a_request_has_every_number_of_its_case(make_case: MakeCase) -> None:
    """Those at their default arrive by it, all others as they are."""
    case = make_case(dtype="float32")
    spec = replace(
        case.spec,
        beta=0.0,
        delta=2.5,
        off_policy_mask_threshold=0.125,
        kl_estimator=KLEstimator.K2,
        sapo_temperature_pos=1.5,
        vespo_lambda_neg=2.25,
    )
    cut = split.Split(ranks=2, accumulation_steps=2, steps_per_generation=2, mode="eval")
    message = read_message(io.BytesIO(case_request(replace(case, spec=spec, split=cut), "cpu", {})).read)
    assert message is not None
    arrived = Spec(**message.header["spec"])
    for field in fields(LossSpec):
        if field.name != "conventions":
            assert getattr(arrived, field.name) == getattr(spec, field.name), field.name
    assert Split(**message.header["split"]) == Split(2, 2, 2, "eval")


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
