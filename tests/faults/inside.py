"""The seeded faults in this process: to start another takes longer than all that is asked of it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from cases.case import Case
from cases.dtypes import FloatArray
from harness.asking import Contestant
from harness.client import Outcome, TargetFacts, WorkerClient
from harness.outcome import case_request
from harness.worker import protocol
from harness.worker.service import Service
from harness.worker.targets.faults import FAULTS, PREFIX
from harness.worker.targets.faults.fault import Fault

NOTHING: Final[Mapping[str, FloatArray]] = MappingProxyType({})
BY_NAME: Final = {fault.name: fault for fault in FAULTS}


class Inside(WorkerClient):
    """The worker's own code, asked as a process of its own would be."""

    def __init__(self, target: str) -> None:
        self._service = Service()
        self._requests: dict[int, bytes] = {}
        self._number = 0
        opened = self._answer(protocol.pack({"request": "open", "target": target, "options": {}}))
        self._facts = TargetFacts.from_headers({"python": "", "torch": "", "platform": ""}, opened.header)

    def submit(
        self,
        case: Case,
        device: str = "cpu",
        instead: Mapping[str, FloatArray] = NOTHING,
        attempt: int = 0,
    ) -> int:
        self._number += 1
        self._requests[self._number] = case_request(case, device, instead, attempt)
        return self._number

    def receive(self, number: int | None = None) -> Outcome:
        request = self._requests.pop(min(self._requests) if number is None else number)
        return Outcome.from_message(self._answer(request), "")

    def has_room(self, case: Case) -> bool:  # noqa: ARG002 # as it is called
        return True

    def has_answer(self, number: int) -> bool:  # noqa: ARG002 # as it is called
        return True

    def _answer(self, request: bytes) -> protocol.Message:
        return _message(self._service.answer(_message(request)))


def _message(data: bytes) -> protocol.Message:
    message = protocol.read_message(io.BytesIO(data).read)
    assert message is not None
    return message


def contestant(fault: Fault) -> Contestant:
    """A fault, ready to be asked."""
    client = Inside(PREFIX + fault.name)
    return Contestant(client, client.facts, "cpu")
