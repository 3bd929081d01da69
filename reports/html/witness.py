"""The smallest case that fails in a cell, with everything that lies beside it in the run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from reports.file_names import witness_name
from reports.html.charts import Scatter
from reports.run import Run
from reports.store import RunStoreError
from reports.token_table import TokenTable


@dataclass(frozen=True)
class Witness:
    """`message`: what was seen, line by line. `table` and `script` are there if the run holds them."""

    case_id: str
    size: str
    message: tuple[str, ...]
    table: TokenTable | None
    script: str
    script_path: str


def witness_of(run: Run, row: dict[Any, Any], rows: pd.DataFrame) -> Witness:
    """The witness in a row of the table, out of a cell's `rows`."""
    one = rows[rows["case_id"] == row["witness"]].iloc[0]
    alone = len(run.facts.get("targets", {})) == 1
    name = witness_name(row["witness"], row["target"], alone)
    script = run.path / "reproducers" / f"{name}.py"
    text = _text(run, f"reproducers/{name}.py")
    return Witness(
        case_id=row["witness"],
        size=f"B {one['rows']}, T {one['columns']}, {_count(int(one['tokens']), 'token')}",
        message=tuple(row["message"].splitlines()),
        table=_table(_text(run, f"tokens/{name}.json")),
        script=text,
        script_path=str(script) if text else "",
    )


def kept_scatters(run: Run, rows: pd.DataFrame) -> list[Scatter]:
    """Error / bound of the worst gradient element of the cases that the run kept of a cell, against its inputs."""
    at = list(_kept(run, rows))
    against = {
        "log-ratio of the token": [(log_ratio, error) for log_ratio, _, _, error in at],
        "advantage of the token": [(advantage, error) for _, advantage, _, error in at],
        "length of its completion": [(length, error) for _, _, length, error in at],
    }
    return [found for name, points in against.items() if (found := Scatter.of(name, points)) is not None]


def _kept(run: Run, rows: pd.DataFrame) -> Iterator[tuple[float, float, float, float]]:
    """Log-ratio, advantage, length of the completion and error / bound."""
    stored = {path.stem for path in (run.path / "cases").glob("*.json")}
    compared = rows[rows["case_id"].isin(stored) & rows["gradient_row"].notna()]
    for one in compared.drop_duplicates("case_id").to_dict("records"):
        try:
            batch = run.case(one["case_id"]).batch
        except RunStoreError:
            continue
        place = int(one["gradient_row"]), int(one["gradient_column"])
        old = batch.logps if batch.old_logps is None else batch.old_logps
        log_ratio = float(batch.logps[place] - old[place])
        yield (
            log_ratio,
            float(batch.token_advantages[place]),
            float(batch.lengths[place[0]]),
            one["gradient_ratio"],
        )


def _text(run: Run, name: str) -> str:
    try:
        return (run.path / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _table(text: str) -> TokenTable | None:
    try:
        return TokenTable.from_json(text) if text else None
    except ValueError:
        return None


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
