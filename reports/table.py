"""From rows to the table: one row per cell, with its verdict, its largest divergence and its witness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from reports.records import SEVERITY, Verdict, worst
from reports.schema import CELL_COLUMNS, MEASURES

VERDICTS: Final = tuple(verdict.value for verdict in Verdict)
QUANTITIES: Final = ("loss", "gradient")
TABLE_COLUMNS: Final = (
    *CELL_COLUMNS,
    "cases",
    *VERDICTS,
    "verdict",
    *(f"{quantity}_{measure}" for quantity in QUANTITIES for measure in MEASURES),
    "witness",
    "message",
    "also",
    "bits_equal",
)

_COMPARED: Final = tuple(
    verdict.value for verdict in (Verdict.CONFORMS, Verdict.DIVERGES, Verdict.KNOWN, Verdict.OVERFLOW)
)


def cell_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, columns `TABLE_COLUMNS`, from rows whose columns are `reports.schema.ROWS`.

    Cells are sorted by target, surface, loss_type, level, beta, dtype and device, and the values of each of
    these stand in the order in which they first appear in the rows.

    * `cases`, and one count a verdict: distinct case ids. `verdict`: the worst.
    * `loss_*`, `gradient_*`: of the record with the largest ratio among those that conform, diverge or
      overflow; NaN where none was compared.
    * `witness`, `message`: of the record with the cell's verdict that was shrunk, else of the one with the
      largest of its two ratios, large batches last; the first of equals. Of an unsupported cell, the reason
      that was given most often.
    * `also`: the other failing verdicts of the cell, each with its count and the beginning of its first message.
    * `bits_equal`: "all", "some" or "none" of the repeated cases, "-" where none was repeated.
    """
    rows = rows.reset_index(drop=True)
    ranks = pd.DataFrame({column: pd.factorize(rows[column])[0] for column in CELL_COLUMNS})
    cell = ranks.groupby(list(CELL_COLUMNS)).ngroup()

    table = rows.loc[~cell.duplicated(), list(CELL_COLUMNS)]
    table = table.set_index(cell[table.index]).sort_index()
    table["cases"] = rows.groupby(cell)["case_id"].nunique()
    counts = rows.groupby([cell, "verdict"])["case_id"].nunique().unstack(fill_value=0)
    table = table.join(counts.reindex(columns=list(VERDICTS), fill_value=0))
    table["verdict"] = [_verdict(counted) for counted in table[list(VERDICTS)].to_dict("records")]
    for quantity in QUANTITIES:
        table = table.join(_largest(rows, cell, quantity))
    table = table.join(_witness(rows, cell, table["verdict"]))
    table["also"] = [_others(rows[cell == number], verdict) for number, verdict in table["verdict"].items()]
    repeated = rows["bits_equal"].dropna().astype(bool)
    share = repeated.groupby(cell[repeated.index]).mean().reindex(table.index)
    table["bits_equal"] = [_how_many(value) for value in share]
    return table.reset_index(drop=True)[list(TABLE_COLUMNS)]


def _verdict(counted: Mapping[Any, int]) -> str:
    return worst(verdict for verdict in Verdict if counted[verdict.value]).value


def _largest(rows: pd.DataFrame, cell: pd.Series, quantity: str) -> pd.DataFrame:
    columns = [f"{quantity}_{measure}" for measure in MEASURES]
    ratio = rows.loc[rows["verdict"].isin(_COMPARED), f"{quantity}_ratio"].dropna()
    position = ratio.groupby(cell[ratio.index]).idxmax()
    return rows.loc[position, columns].set_index(position.index)


def _witness(rows: pd.DataFrame, cell: pd.Series, verdict: pd.Series) -> pd.DataFrame:
    # An error / bound is never negative: -1 puts what was not compared last.
    ratio = rows[["loss_ratio", "gradient_ratio"]].max(axis=1).fillna(-1.0)
    eligible = rows["verdict"] == cell.map(verdict)
    shrunk = eligible & (rows["phase"] == "shrunk")
    # A witness that was made small stands for its cell, however large another divergence is.
    eligible &= shrunk | ~cell.isin(cell[shrunk])
    # One that can be read is preferred to one of a hundred thousand tokens.
    readable = eligible & (rows["phase"] != "large")
    eligible &= readable | ~cell.isin(cell[readable])
    refused = eligible & (rows["verdict"] == Verdict.UNSUPPORTED.value)
    usual = rows["message"][refused].groupby(cell[refused]).agg(lambda messages: messages.mode().iloc[0])
    eligible &= ~refused | (rows["message"] == cell.map(usual))
    ratio = ratio[eligible]
    position = ratio.groupby(cell[ratio.index]).idxmax()
    witness = rows.loc[position, ["case_id", "message"]].set_index(position.index)
    return witness.rename(columns={"case_id": "witness"})


def _others(rows: pd.DataFrame, verdict: str) -> str:
    parts = []
    for other in SEVERITY:
        found = rows[rows["verdict"] == other.value] if other.fails and other.value != verdict else rows[:0]
        if len(found):
            first = found["message"].iloc[0].split("\n")[0]
            parts.append(f"{other} in {found['case_id'].nunique()}: {first}")
    return "; ".join(parts)


def _how_many(share: float) -> str:
    if pd.isna(share):
        return "-"
    return "all" if share == 1 else "some" if share else "none"


@dataclass(frozen=True)
class TargetSummary:
    """What became of one target.

    * `cells`: cells per verdict, those that occur: conforming ones first, then worst first.
    * `cases`: judged ones, summed over the cells; a case that is `unsupported` was not judged.
    """

    target: str
    cells: Mapping[Verdict, int]
    cases: int

    @property
    def verdict(self) -> Verdict:
        """The worst of the cells'."""
        return worst(self.cells)

    @property
    def sentence(self) -> str:
        """One line, such as "trl 1.16.0: 60 cells, 5,640 cases: 56 conform, 4 DIVERGE"."""
        total = sum(self.cells.values())
        if len(self.cells) == 1:
            outcome = f"all {_word(self.verdict, total)}" if total > 1 else _word(self.verdict, total)
        else:
            outcome = ", ".join(f"{count:,} {_word(verdict, count)}" for verdict, count in self.cells.items())
        if self.verdict in (Verdict.OVERFLOW, Verdict.KNOWN):
            outcome = f"nothing diverges, {outcome}"
        return f"{self.target}: {_count(total, 'cell')}, {_count(self.cases, 'case')}: {outcome}"


def _word(verdict: Verdict, count: int) -> str:
    verb = verdict in (Verdict.CONFORMS, Verdict.DIVERGES)
    word = verdict.value.removesuffix("s") if verb and count != 1 else verdict.value
    return word.upper() if verdict.fails else word


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def summary(table: pd.DataFrame) -> list[TargetSummary]:
    """One summary a target, in the order of the table that `cell_table` made."""
    return list(_summaries(table))


def _summaries(table: pd.DataFrame) -> Iterator[TargetSummary]:
    ordered = (Verdict.CONFORMS, *SEVERITY[: SEVERITY.index(Verdict.CONFORMS)], Verdict.UNSUPPORTED)
    for target, cells in table.groupby("target", sort=False):
        counts = {verdict: int((cells["verdict"] == verdict.value).sum()) for verdict in ordered}
        yield TargetSummary(
            target=str(target),
            cells={verdict: count for verdict, count in counts.items() if count},
            cases=int((cells["cases"] - cells[Verdict.UNSUPPORTED.value]).sum()),
        )
