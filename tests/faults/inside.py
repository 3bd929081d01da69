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
        opened = self._answer(protocol.pack({"request": "open", "target": target, "options": {}}))
        self._facts = TargetFacts.from_headers({"python": "", "torch": "", "platform": ""}, opened.header)

    def submit(
        self,
        case: Case,
        device: str = "cpu",
        instead: Mapping[str, FloatArray] = NOTHING,
        attempt: int = 0,
    ) -> None:
        self._request = case_request(case, device, instead, attempt)

    def receive(self) -> Outcome:
        return Outcome.from_message(self._answer(self._request), "")

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
