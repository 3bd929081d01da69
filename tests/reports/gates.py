"""Gates made of records, with every verdict there is and names that mean harm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import pandas as pd

from reports.gate import Gate
from reports.gating import gate_of
from reports.records import Divergence, Record, Verdict

MakeRecord = Callable[..., Record]
RowsOf = Callable[[Iterable[Record]], pd.DataFrame]

ROOT: Final = "/home/me/fork"
HOSTILE: Final = 'my:"loss",\x1b[31m\x00\ufffe ]]><a b="&amp;"> | [x](http://e.vil) {0} 100%\n::error::x'
FAR: Final = Divergence(4.2e-3, 1.3e6, 1.3e4)


def facts(targets: Iterable[str], /, **changes: Any) -> dict[str, Any]:
    """The facts of a complete run of some targets; of "x 1.2", the word is "x" and the loss in x.py."""
    words = [label.partition(" ")[0] for label in targets]
    return {
        "complete": True,
        "lossgate": "0.1.0",
        "seed": 0,
        "profile": "ci",
        "started": "2026-01-02T03:04:05+00:00",
        "exit_code": 0,
        "root": ROOT,
        "requested": words,
        "targets": {
            label: {"versions": {word: "1"}, "source": {"file": f"{ROOT}/{word}.py", "line": 7}}
            for label, word in zip(targets, words, strict=True)
        },
        **changes,
    }


def finding(record: Record, signature: str) -> dict[str, Any]:
    """The finding in a record's cell, as run.json has it."""
    return {**vars(record.cell), "signature": signature, "explains": True}


def every_verdict(record: MakeRecord, target: str = "trl 1.16.0") -> list[Record]:
    """A cell of every verdict, by its loss_type."""
    return [
        record(
            target=target,
            loss_type=verdict.value,
            verdict=verdict,
            case_id=f"{number:012x}",
            loss=FAR if verdict is Verdict.DIVERGES else Divergence(3e-8, 0.5, 0.12),
            message="" if verdict is Verdict.CONFORMS else f"what was seen: {verdict}\nmore of it",
        )
        for number, verdict in enumerate(Verdict)
    ]


def gate(rows_of: RowsOf, records: Iterable[Record], path: Path | None = None, **changes: Any) -> Gate:
    """The gate of some records; `changes` are facts of the run."""
    records = list(records)
    targets = list(dict.fromkeys(one.cell.target for one in records))
    about = {"exit_code": int(any(one.verdict.fails for one in records)), **changes}
    return gate_of(rows_of(records), facts(targets, **about), path)
