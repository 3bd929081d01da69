"""Pages whose body is Markdown that is there: of a matrix and of a comparison; and the table of a benchmark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.published.head import FAIR, Head
from reports.comparison import Comparison
from reports.comparison_formats import markdown
from reports.records import Verdict

RELEASES: Final = "Releases side by side"
SPEED: Final = "Speed"
_CLOSER: Final = (
    "`lossgate run` of a release writes a witness of each cell that differs, for `lossgate explain`.\n"
)


def matrix(printed: str, facts: Mapping[str, Any], command: str) -> str:
    """The page of a matrix: what was printed, and the content of its `matrix.json`."""
    title, body = _split(printed)
    _, _, rest = body.partition("\n")
    cells = [cell["verdict"] for release in facts["releases"] for cell in release["cells"]]
    differ = sum(Verdict(verdict).fails for verdict in cells)
    result = f"{len(cells):,} cells of {len(facts['releases'])} releases: {differ:,} differ from the formula."
    head = Head(RELEASES, title, facts["started"][:10], command, _versions(facts), result)
    return _page(head, f"{FAIR}\n{_CLOSER}", rest)


def comparison(found: Comparison, facts: Mapping[str, Any], command: str) -> str:
    """The page of a comparison, and the facts of the run of both."""
    title, body = _split("\n".join(markdown(found)))
    counts = Counter(cell.change for cell in found.cells)
    parts = ", ".join(f"{count:,} {change}" for change, count in counts.items())
    regressions = f"{len(found.regressions):,} regressions" if found.regressions else "no regression"
    result = f"{len(found.cells):,} cells: {parts}; {regressions}."
    head = Head(RELEASES, title, facts["started"][:10], command, _versions(facts), result)
    return _page(head, f"{FAIR}\n{_CLOSER}", body.replace("### ", "## "))


def speed(printed: str, command: str, date: str, versions: Mapping[str, str]) -> str:
    """The page of a table that a benchmark printed."""
    result = "What judging a case costs, beside the loss and the backward pass of TRL itself."
    words = (
        "Machines differ and are noisy: compare the ratios within the table, not the times. [All benchmarks]"
        "(../../benchmarks/README.md), with the commands that run them, are in a folder of their own.\n"
    )
    return _page(Head(SPEED, "Speed", date, command, versions, result), words, printed)


def _page(head: Head, words: str, body: str) -> str:
    return "\n".join(head.lines()) + f"\n{words}\n" + body.strip() + "\n"


def _split(printed: str) -> tuple[str, str]:
    first, _, body = printed.strip().partition("\n")
    return first.lstrip("# "), body.strip()


def _versions(facts: Mapping[str, Any]) -> dict[str, str]:
    torch = {str(target["torch"]) for target in facts.get("targets", {}).values()}
    own = {"lossgate": str(facts["lossgate"]), "python": str(facts["versions"]["python"])}
    return {**own, "torch": ", ".join(sorted(torch))} if torch else own
