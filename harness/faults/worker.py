"""One process that opens one seeded fault after the other: to import torch takes longer than to judge a fault."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from harness.client import TargetFacts, TargetUnavailable, WorkerClient
from harness.worker import protocol
from harness.worker_process import FAILURES

PREFIX: Final = "fault:"
CORRECT: Final = "none"


@dataclass(frozen=True)
class About:
    """What a fault says of itself as one.

    `wrong` is what is wrong in it; `equivalent` says that it changes nothing that counts; in the dtypes of
    `drowned` it changes less than rounding may; a `large` one changes nothing but in large batches.
    """

    name: str
    wrong: str
    equivalent: bool
    drowned: tuple[str, ...]
    loss_types: tuple[str, ...]
    levels: tuple[str, ...]
    dtypes: tuple[str, ...]
    large: bool = False

    @classmethod
    def from_header(cls, opened: Mapping[str, Any]) -> Self:
        """What the answer to `open` says."""
        supports = opened["supports"]
        return cls(
            name=opened["label"].removeprefix(PREFIX),
            wrong=opened["replaced"][0],
            equivalent=opened["fault"]["equivalent"],
            drowned=tuple(opened["fault"]["drowned"]),
            loss_types=tuple(supports["loss_types"]),
            levels=tuple(supports["levels"]),
            dtypes=tuple(supports["dtypes"]),
            large=opened["fault"]["large"],
        )


class FaultWorker(WorkerClient):
    """A process in which faults are opened by name. Where it dies, the next case starts it anew."""

    def __init__(self, python: str) -> None:
        super().__init__(python, PREFIX + CORRECT)

    def names(self) -> tuple[str, ...]:
        """Every fault there is. Raises `TargetUnavailable` as all methods do."""
        return tuple(self._opened(CORRECT)["fault"]["names"])

    def open(self, name: str) -> About:
        """Have the cases that follow answered by a fault."""
        opened = self._opened(name)
        before = self.facts
        hello = {"python": before.python, "torch": before.torch, "platform": before.platform}
        self._facts = TargetFacts.from_headers(hello, opened)
        return About.from_header(opened)

    def _opened(self, name: str) -> Mapping[str, Any]:
        process = self._running()
        deadline = time.monotonic() + self._start.timeout
        try:
            process.send(protocol.pack({"request": "open", "target": PREFIX + name, "options": {}}), deadline)
            answer: Mapping[str, Any] = process.receive(deadline).header
        except FAILURES as failure:
            sentence, printed = process.end(failure, self._start.timeout)
            self._process = None
            raise TargetUnavailable("broken", f"{PREFIX}{name}: its process {sentence}", "", printed) from None
        if answer["status"] != "ok":
            raise TargetUnavailable.from_header(answer)
        self._start = replace(self._start, target=PREFIX + name)
        return answer
