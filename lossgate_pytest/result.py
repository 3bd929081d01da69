"""What a run says of its cells, read off the report that `lossgate run --format json` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lossgate_pytest.question import AXES, Cell

FAILING: Final = ("diverges", "crash", "timeout", "error", "nondeterministic")
NOT_JUDGED: Final = "not judged"


@dataclass(frozen=True)
class CellResult:
    """What became of one cell of a target.

    * `verdict`: such as "conforms"; "not judged" where cases that tell its loss apart were never met.
    * `message`: why, in words; `signature`: what is wrong in one line, read off all failing cases, or "".
    * `loss`, `gradient`: the largest error as `absolute`, `ulps` and `ratio`, error / bound; None: not compared.
    * `cases`: how many were judged; `failed`: how many of them failed.
    * `witness`: the case that shows it best, a file of the run, or None.
    * `device` it was computed on.
    """

    target: str
    cell: Cell
    verdict: str
    message: str
    signature: str = ""
    loss: Mapping[str, Any] = field(default_factory=dict)
    gradient: Mapping[str, Any] = field(default_factory=dict)
    cases: int = 0
    failed: int = 0
    witness: Path | None = None
    device: str = "cpu"

    @property
    def fails(self) -> bool:
        """Whether a test must not pass."""
        return self.verdict in (*FAILING, NOT_JUDGED)

    @property
    def headline(self) -> str:
        """What became of it in one line."""
        why = self.signature or self.message.partition("\n")[0]
        return f"{self.target} {self.verdict}: {why}" if why else f"{self.target} {self.verdict}"


@dataclass(frozen=True)
class Run:
    """A run that came to its end: the target as it was asked for, the folder, and the report."""

    target: str
    folder: Path
    report: Mapping[str, Any]

    @property
    def facts(self) -> Mapping[str, Any]:
        """What `run.json` says."""
        facts: Mapping[str, Any] = self.report["facts"]
        return facts

    @property
    def problem(self) -> str:
        """Why no cell of it is a pass, though none fails, or ""."""
        if self.report["complete"] is not True:
            return "lossgate's run did not come to its end"
        verdicts = {cell["verdict"] for cell in self.report["cells"]}
        explained = verdicts & set(FAILING) or self.facts["missing_regions"] or verdicts <= {"unsupported"}
        if self.facts["exit_code"] == 0 or explained:
            return ""
        failing = [one["message"] for one in self.facts.get("expectations", []) if one["fails"]]
        return "; ".join([f"lossgate's run ended with exit code {self.facts['exit_code']}", *failing])

    def result(self, cell: Cell) -> CellResult:
        """What became of a cell."""
        row = next((row for row in self.report["cells"] if _is_of(row, cell)), None)
        if row is None:
            return CellResult(self.target, cell, "unsupported", self._lacking(cell))
        verdict, message, signature = row["verdict"], row["message"], ""
        # These are told by the cell as reports write it.
        missed = self.facts["missing_regions"]
        regions = missed.get(f"{row['target']} {cell}") or missed.get(f"{row['target']} {cell} {row['device']}")
        if verdict == "diverges":
            signature = next((one["signature"] for one in self._findings if _is_of(one, cell)), "")
        elif regions and verdict not in FAILING:
            verdict, message = NOT_JUDGED, f"no case was in {', '.join(regions)}, which its loss is told apart by"
        return CellResult(
            target=self.target,
            cell=cell,
            verdict=verdict,
            message=message,
            signature=signature,
            loss=row["loss"],
            gradient=row["gradient"],
            cases=row["cases"] - row["verdicts"]["unsupported"],
            failed=sum(row["verdicts"][one] for one in FAILING),
            witness=self.folder / "cases" / f"{row['witness']}.json",
            device=row["device"],
        )

    @property
    def _findings(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.facts.get("findings", []))

    def _lacking(self, cell: Cell) -> str:
        for about in self.facts["targets"].values():
            for name in AXES:
                value = getattr(cell, name)
                if value not in about["supports"].get(f"{name}s", [value]):
                    return f"it does not support {name} {value}"
        return "the run has no such cell"


def _is_of(row: Mapping[str, Any], cell: Cell) -> bool:
    return all(row[name] == getattr(cell, name) for name in AXES)
