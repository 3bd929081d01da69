"""A run as a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from reports.expectations import expected
from reports.gate import Gate
from reports.html.about import outcome, settings, tested
from reports.html.cells import SIGNS, CellView, cells_of
from reports.html.charts import HEIGHT, INSET, MARGIN, WIDTH
from reports.html.findings import wrong
from reports.html.overview import grids
from reports.html.page import environment, rendered
from reports.run import Run

LARGEST: Final = 1_900_000
"""Bytes of a page; the details of cells that have nothing new to say are left out of a larger one."""


def render(run: Run, gate: Gate, largest: int = LARGEST) -> str:
    """The page of a run, finished or not, and of its gate."""
    views = cells_of(run, gate)
    room = largest - len(_page(run, gate, views, [], 0).encode())
    details, left_out = _details(sorted(views, key=lambda view: view.rank), room)
    return _page(run, gate, views, details, left_out)


def _page(run: Run, gate: Gate, views: Sequence[CellView], details: Sequence[Markup], left_out: int) -> str:
    cells = [view.entry.cell for view in views]
    return rendered(
        "run.html",
        outcome=outcome(gate),
        problems=[one for one in gate.problems if one.kind != "incomplete"],
        warnings=gate.warnings,
        settings=settings(run.facts),
        tested=tested(gate),
        wrong=wrong(views),
        grids=grids(views),
        signs=SIGNS,
        details=details,
        left_out=left_out,
        expected=expected(run.facts),
        run=str(run.path),
        lossgate=str(run.facts.get("lossgate", "")),
        choices={
            "target": list(dict.fromkeys(str(view.entry.subject) for view in views)),
            "loss_type": list(dict.fromkeys(cell.loss_type for cell in cells)),
            "dtype": list(dict.fromkeys(cell.dtype for cell in cells)),
            "verdict": list(dict.fromkeys(view.entry.kind for view in views)),
        },
    )


def _details(views: Sequence[CellView], room: int) -> tuple[list[Markup], int]:
    """The details of the cells within some bytes, and how many of them are short because of that."""
    template = environment().get_template("cell.html")
    sizes = {"width": WIDTH, "height": HEIGHT, "margin": MARGIN, "inset": INSET}
    found = [Markup(template.render(cell=view, brief=False, **sizes)) for view in views]
    excess = sum(len(text.encode()) for text in found) - room
    left_out = 0
    for place in _least_telling_first(views):
        if excess <= 0:
            break
        short = Markup(template.render(cell=views[place], brief=True, **sizes))
        excess -= len(found[place].encode()) - len(short.encode())
        found[place] = short
        left_out += 1
    return found, left_out


def _least_telling_first(views: Sequence[CellView]) -> list[int]:
    """What passes, from the end; then failing cells that say what one before them says; then the others."""
    said: set[tuple[str, str]] = set()
    groups: tuple[list[int], list[int], list[int]] = ([], [], [])
    for place, view in enumerate(views):
        key = view.entry.subject.label, view.entry.headline
        groups[0 if not view.entry.status.stops else 1 if key in said else 2].append(place)
        said.add(key)
    return [place for group in groups for place in reversed(group)]
