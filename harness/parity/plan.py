"""What a parity check is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.config import Config
from harness.errors import unknown
from harness.parity.execution import Execution, executions_of
from harness.plan import Plan
from oracles.named_contracts import NAMED, ORDINARY

EXAMPLES: Final = 4
EXAMPLES_COMPILED: Final = 1
"""Descriptions per cell: where a compiler takes part, each takes it seconds."""


@dataclass(frozen=True)
class ParityPlan:
    """The cells and what holds for every process, the executions, and the named contract in force for all of them.

    `every_cell`: whether a compiled execution is asked in every cell, or in so many that each loss meets each
    level and each beta in every dtype.
    """

    cells: Plan
    executions: tuple[Execution, ...]
    contract: str
    every_cell: bool = False

    @property
    def target(self) -> str:
        """The target that is checked: of the last execution, since what it is held against comes first."""
        return self.executions[-1].target

    @property
    def names(self) -> Sequence[str]:
        """The executions' names, which tell them apart."""
        return [one.named(self.executions) for one in self.executions]

    @classmethod
    def of(
        cls,
        target: str,
        *,
        against: str | None = None,
        devices: str = "cpu",
        compilers: str = "eager",
        threads: str = "1",
        contract: str = ORDINARY,
        examples: int | None = None,
        every_cell: bool = False,
        config: Path | None = None,
        **options: Any,
    ) -> ParityPlan:
        """Read what a command line says; `options` are those of `Plan.of`. Raises `UsageError`."""
        executions = executions_of(target, against, devices, compilers, threads)
        if contract not in NAMED:
            raise unknown("contract", contract, NAMED)
        if examples is None:
            examples = EXAMPLES_COMPILED if any(one.is_compiled for one in executions) else EXAMPLES
        configured = Config.load(config)
        cells = Plan.of(
            list(dict.fromkeys(one.target for one in executions)),
            examples=examples,
            settings=configured.settings,
            expect=configured.expect,
            config=str(configured.file),
            **options,
        )
        return cls(cells, executions, contract, every_cell)
